// The page: the URL says which view and which moment, the track moves the moment, and the watch keeps the present fresh.

import { drawBanner, drawLag, drawStatus, drawVerdict, isStale, noticed } from "./banner.js";
import { actions, disarm } from "./command.js";
import { askComparison, comparison } from "./compare.js";
import {
  answers,
  at,
  dayBegin,
  follow,
  forget,
  momentOf,
  Problem,
  peek,
  read,
  readAhead,
  STATUS_LIMIT_MS,
  setReachable,
} from "./data.js";
import { address, h, link, parsed, patch, sinceOf } from "./dom.js";
import { forgetWanted } from "./lists.js";
import { lastLooked, looked, setUpLook } from "./look.js";
import { readLinks } from "./outward.js";
import { setUpSearch } from "./search.js";
import { Track } from "./track.js";
import { TABS, views } from "./views.js";
import { ago, momentText, twiceText, zone } from "./words.js";

const content = document.getElementById("content");
const nav = document.getElementById("nav");
const timeLine = document.getElementById("time");
const past = document.getElementById("past");
const AHEAD = 8;
const MOST_READ_AHEAD = 60;
const AGE_EVERY_MS = 1000;
const AGAIN_MS = 2000;

let state = parsed(location.hash);
let newest = null;
let isConnected = true;
let drawing = 0;
let shownHash = null;
let job = null;

const track = new Track(
  timeLine,
  (epoch, isFinal) => go({ epoch }, isFinal),
  (window) => {
    go({ window }, true);
    readTimeline();
  },
  expanded,
  goToTyped,
  rezoned,
  readTimeline,
);

function expanded(mark) {
  const asked = `v1/timeline?since=${sinceOf(state.window)}&above=${mark.firstEpoch - 1}`;
  return at(asked, mark.epoch).then(
    (found) => found.marks,
    () => null,
  );
}

function go(change, isFinal) {
  if ("epoch" in change) change = { at: null, ...change };
  if ("view" in change) change = { filters: {}, ...change };
  if ("view" in change || "filters" in change) forgetWanted();
  if (isFinal) disarm();
  state = { ...state, wrong: [], ...change };
  typing += 1;
  noteOf(null);
  const url = address(state);
  if (isFinal) shownHash = url;
  history[isFinal && location.hash !== url ? "pushState" : "replaceState"](null, "", url);
  draw();
}

function noteOf(problem) {
  track.note.textContent = problem?.message ?? "";
  track.note.hidden = problem === null;
}

let typing = 0; // what is found for a text that is gone is dropped

async function goToTyped(text) {
  const turn = ++typing;
  noteOf({ message: `Looking for ${text} …` });
  try {
    const found = await momentOf(text);
    if (turn !== typing) return;
    if (found.epoch !== null) found.epoch = found.epoch >= newest && found.at === null ? null : found.epoch;
    if (found.epoch !== null) await at("v1/overview", found.at ?? found.epoch);
    if (turn === typing) go(found, true);
  } catch (problem) {
    if (turn === typing) noteOf(problem);
  }
}

// Finds the epochs of times in the address. An address with both is of a page that had found it.
async function resolve() {
  const asked = state,
    isOfTwo = asked.view === "compare" && (asked.from !== null || asked.to !== null);
  if (!isOfTwo && asked.at === null) return true;
  try {
    const found = isOfTwo ? await twoMoments(asked) : await momentOf(asked.at);
    if ((isOfTwo ? ["view", "from", "to"] : ["at"]).some((key) => state[key] !== asked[key])) return false;
    state = { ...state, ...found };
    history.replaceState(null, "", address(state));
    shownHash = location.hash;
    return true;
  } catch (problem) {
    showProblem(problem);
    return false;
  }
}

async function twoMoments({ from, to, other }) {
  const texts = [from && dayBegin(from), to];
  const [before, after] = await Promise.all(texts.map((text) => (text === null ? null : momentOf(text))));
  return { from: null, to: null, other: before ? (before.epoch ?? newest) : other, ...(after ?? {}) };
}

function rezoned() {
  if (track.timeline) track.show(track.timeline);
  draw();
}

addEventListener("popstate", onAddress);
addEventListener("hashchange", onAddress);

async function onAddress() {
  if (location.hash === shownHash) return;
  disarm();
  const before = state;
  state = parsed(location.hash);
  forgetWanted();
  shownHash = location.hash;
  if (before.view !== state.view || before.name !== state.name) scrollTo(0, 0);
  if (state.at !== null && state.at === before.at) state = { ...state, epoch: before.epoch };
  else if (!(await resolve())) return;
  if (before.window !== state.window) readTimeline();
  draw();
}

function asked() {
  if (state.view === "compare") {
    const after = state.epoch ?? newest;
    const before =
      state.other ?? Math.max(1, track.marks.at(Math.max(0, track.index(state.epoch) - 1) - 1)?.epoch ?? after - 1);
    return askComparison({ ...state, newest }, before, after);
  }
  const view = views[state.view] ?? views.overview;
  return view.ask(state).map((path) => [path, shownMoment()]);
}

// The moment that is shown, as the API is asked for it: null is the present.
const shownMoment = () => state.at ?? state.epoch;

// What is wrong with the address of the page, as one text; empty if nothing is.
function mistakes() {
  const isKnown = state.view === "compare" || Object.hasOwn(views, state.view);
  return [
    ...state.wrong,
    ...(isKnown ? [] : [`No view '${state.view}'. Use ${[...Object.keys(views), "compare"].join(", ")}.`]),
  ].join(" ");
}

async function draw(isMove = true) {
  const turn = ++drawing;
  drawNav();
  if (mistakes()) return showProblem(new Problem(404, mistakes()), "Invalid address");
  track.at = state.at;
  track.place(state.epoch);
  track.spans.value = state.window;
  drawPresent();
  if (newest === null || (state.at !== null && state.epoch === null)) return; // not yet found, or not yet resolved
  const questions = [...asked(), ["v1/overview", shownMoment()]];
  const here = questions.map(([path, moment]) => peek(path, moment));
  if (here.every(Boolean) && here.every((each, index) => questions[index][1] !== null || isNewest(each))) {
    show(here);
  } else {
    if (isMove) begin(here);
    const found = await answers(questions);
    if (turn !== drawing) return;
    const values = found.map((each) => each.value),
      failed = found.slice(0, -1).filter((each) => each.status === "rejected");
    const isProblem = failed.length === found.length - 1 || failed.some((each) => each.reason.status !== 404);
    // what is drawn stays if only its refresh has failed, which is tried again
    const isKept =
      !isMove &&
      content.dataset.place &&
      !content.classList.contains("waiting") &&
      failed.some(({ reason }) => !reason.status || reason.status >= 500);
    if (isProblem && !isKept) showProblem(failed[0].reason, null, values.at(-1));
    else if (!isProblem) show(values);
  }
  lookAhead(questions[0][0]);
}

const isNewest = (answer) => answer.snapshot === undefined || answer.snapshot.epoch >= newest;

// What is shown until the answers are there: of the past nothing of the present and the reverse, and from a console that
// does not answer that nothing can be shown.
function begin(here) {
  const isPast = shownMoment() !== null;
  content.classList.add("waiting");
  const isOther = content.dataset.moment !== String(shownMoment());
  if (isOther) content.classList.add("elsewhere");
  drawPast(null);
  if (isOther && !here.at(-1)) drawVerdict(null, titleOf(), { epoch: state.epoch, at: state.at });
  if (isPast) shown = null;
  drawAge();
  if (!isConnected) showProblem(new Problem(0, "The console is unreachable. This view is shown when it answers."));
}

// Reads ahead near a past moment, and only what is small: an answer about very many brokers takes the console a while.
function lookAhead(path) {
  const { counts } = peek("v1/overview", shownMoment()) ?? {};
  if (shownMoment() === null || state.view === "compare" || !(counts?.brokerNames <= MOST_READ_AHEAD)) return;
  const here = track.index(state.epoch);
  const near = Array.from({ length: AHEAD }, (_, step) => [here + step + 1, here - step - 1]).flat();
  readAhead(path, [...new Set(near.map((index) => track.marks[index]?.epoch).filter(Boolean))]);
}

// That the past is shown, and the way back.
function drawPast(eventTime) {
  const isPast = shownMoment() !== null && state.view !== "compare";
  document.body.classList.toggle("past", isPast);
  past.hidden = !isPast;
  const when = state.at ?? eventTime;
  const twice = state.at && twiceText(state.at);
  patch(
    past,
    isPast
      ? [
          h("span", {}, `You look at ${when ? momentText(when) : `snapshot ${state.epoch}`}. `),
          h("a", { href: address({ ...state, epoch: null, at: null }) }, "Back to now"),
          h("span", {}, twice ? ` ${twice}` : ""),
        ]
      : [],
  );
}

// Shows answers, the verdict's last. Those about the present may be of an older snapshot than the newest.
function show(found) {
  const moment = { epoch: state.epoch, at: state.at, window: state.window };
  const view = views[state.view] ?? views.overview;
  const isCompare = state.view === "compare";
  if (isCompare) away = null;
  const title = titleOf();
  const all = found.at(-1);
  drawVerdict(all?.verdict ?? null, title, moment, all?.snapshot.eventTime);
  shown = shownMoment() === null && all ? all.snapshot : null;
  if (shown) noticed(all.verdict, shown.epoch);
  if (shown && !document.hidden) looked(shown.epoch);
  drawAge();
  drawPast(all?.snapshot.eventTime);
  const page = { redraw: () => draw(false), state: { ...state, newest: all?.snapshot.epoch ?? newest }, go, actions };
  const parts = isCompare ? comparison(found, moment, page.state) : view.show(found, moment, page);
  const snapshot = found.find((each) => each?.snapshot)?.snapshot;
  if (snapshot && state.epoch !== null) track.place(state.epoch, snapshot.eventTime);
  const share = h("button", { type: "button", class: "share-link", onclick: copyLink }, "Copy link to this time");
  const drawn = [
    h(
      "div",
      { class: "title" },
      h("h1", { class: state.view === "overview" ? "hushed" : null }, title),
      away && shown && away.epoch < shown.epoch
        ? link(
            "compare",
            "",
            { other: away.epoch, window: state.window },
            `What changed since you last looked (${ago(away.atMs)})`,
          )
        : null,
      isCompare
        ? compareForm(found)
        : state.epoch !== null &&
            h(
              "span",
              {},
              link("compare", "", { ...moment, other: state.epoch, epoch: null, at: null }, "Compare with now"),
              " ",
              share,
            ),
    ),
    ...parts.flat(Infinity).filter(Boolean),
  ];
  const place = `${state.view}/${state.name}`;
  if (content.dataset.place === place) patch(content, drawn);
  else content.replaceChildren(...drawn);
  content.dataset.place = place;
  content.dataset.moment = String(shownMoment());
  content.classList.remove("waiting", "elsewhere");
}

function titleOf() {
  return state.view === "compare" ? "Compare two times" : (views[state.view] ?? views.overview).title(state);
}

function copyLink(event) {
  const url = new URL(address({ ...state, epoch: state.epoch ?? newest }), location.href).href;
  const done = (text) => {
    event.target.textContent = text;
  };
  (navigator.clipboard?.writeText(url) ?? Promise.reject(new Error("no clipboard"))).then(
    () => done("Copied"),
    () => done(url),
  );
}

function compareForm([, before, after]) {
  const input = (name, label, epoch) =>
    h(
      "label",
      {},
      label,
      " ",
      h("input", {
        name,
        value: epoch,
        autocomplete: "off",
        title: "A snapshot number, or a time: 03:12, 2026-11-21 03:12, 2h ago, now",
      }),
    );
  const onSubmit = async (event) => {
    event.preventDefault();
    const typed = new FormData(event.target);
    try {
      const texts = [dayBegin(typed.get("before")), typed.get("after")];
      const [first, second] = await Promise.all(texts.map((text) => momentOf(text)));
      go({ other: first.epoch ?? newest, ...second }, true);
    } catch (problem) {
      noteOf(problem);
    }
  };
  return h(
    "form",
    { class: "pair", onsubmit: onSubmit },
    input("before", "from", before.snapshot.epoch),
    input("after", "to", after.snapshot.epoch),
    h("button", {}, "Compare"),
    h("small", { class: "quiet" }, "snapshot numbers or times; the track changes the second one"),
  );
}

// `all`: the overview of the moment, if there is such a moment; else the verdict is about the present.
function showProblem(problem, title = null, all = null) {
  content.dataset.place = "";
  content.dataset.moment = String(shownMoment());
  shown = null;
  const turn = drawing,
    tell = (seen, moment) => {
      if (turn === drawing) drawVerdict(seen?.verdict ?? null, title ?? "", moment, seen?.snapshot.eventTime);
    };
  tell(all, { epoch: state.epoch, at: state.at });
  if (!all && newest !== null && isConnected)
    at("v1/overview", null).then(
      (seen) => tell(seen, {}),
      () => {},
    );
  const heading =
    title ??
    (problem.isEmpty ? "No registry yet" : problem.status === 404 ? "Not found at this time" : "Cannot be shown now");
  const begin = problem.isEmpty
    ? h(
        "p",
        {},
        "To start one on this machine: ",
        h("code", {}, "namesrv-stream up"),
        " runs Kafka, the job and eight simulated brokers; ",
        h("code", {}, "namesrv-stream demo"),
        " shows an outage. This page continues automatically when there is a registry.",
      )
    : "";
  content.replaceChildren(
    h("section", { class: "card problem", role: "alert" }, h("h2", {}, heading), h("p", {}, problem.message), begin),
  );
  content.classList.remove("waiting", "elsewhere");
}

function drawNav() {
  const moment = { epoch: state.epoch, at: state.at, window: state.window };
  patch(
    nav,
    TABS.map(([view, text]) =>
      h("a", { href: address({ view, ...moment }), "aria-current": view === state.view ? "page" : null }, text),
    ),
  );
}

function drawPresent() {
  timeLine.hidden = newest === null;
  drawBanner(job, isConnected, state.epoch === null);
  drawStatus(job, isConnected, newest);
  const stopped = isStale(job, isConnected) && job ? `last update ${ago(job.publishedAt)}` : null;
  if (stopped === track.stopped) return;
  track.stopped = stopped;
  track.place(state.epoch);
}

let away = lastLooked(); // what the reader saw last, if that is a while ago
let shown = null; // the snapshot of the present that is drawn, null while the past is shown

// The ages on the page, which grow by themselves.
function drawAge() {
  drawPresent();
  drawLag(shown, newest, newestAtMs);
}

setInterval(() => {
  if (!document.hidden) drawAge();
}, AGE_EVERY_MS);

function setConnected(connected) {
  const isBack = connected && !isConnected;
  isConnected = connected;
  setReachable(connected);
  drawPresent();
  if (!isBack || newest === null) return;
  refreshed = null;
  refresh();
  if (shownMoment() !== null) draw();
}

let unanswered = 0; // a hidden page has no stream that would tell
let askedMs = null; // when the status was asked for that is not answered yet

async function readStatus() {
  if (askedMs !== null) {
    if (performance.now() - askedMs > STATUS_LIMIT_MS) setConnected(false);
    return;
  }
  const before = newest,
    wasDoubted = Boolean(job?.unknownSince);
  askedMs = performance.now();
  try {
    job = await read(`v1/status?tz=${encodeURIComponent(zone())}`, {}, STATUS_LIMIT_MS);
    seen(job.epoch, job.publishedAt);
    unanswered = 0;
    setConnected(true);
  } catch (problem) {
    unanswered += 1;
    if (newest === null) showProblem(problem);
    else if (unanswered > 1 || performance.now() - askedMs >= STATUS_LIMIT_MS) setConnected(false);
  } finally {
    askedMs = null;
  }
  drawPresent();
  if (wasDoubted && !job.unknownSince) refreshed = null; // the text of the health line had the doubt
  if (before === null && newest !== null && shownHash !== null) onFirst();
  else if (before !== null && (refreshed === null || newest !== refreshed)) refresh();
}

let newestAtMs = 0;

function seen(epoch, publishedAt) {
  const atMs = new Date(publishedAt).getTime();
  const isOfAnother = newest !== null && epoch < newest && atMs > newestAtMs; // a new registry counts from 1 again
  if (newest !== null && epoch <= newest && !isOfAnother) return;
  if (isOfAnother) forget();
  newest = epoch;
  newestAtMs = atMs;
}

async function readTimeline() {
  if (newest === null || mistakes()) return;
  try {
    const [since, until] = track.zoomed?.map((ms) => new Date(ms).toISOString()) ?? [sinceOf(state.window), null];
    track.show(await at(`v1/timeline?since=${since}${until === null ? "" : `&until=${until}`}`, null));
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
  }
}

let isRefreshing = false;
let refreshed = null;

function onSnapshot(snapshot) {
  seen(snapshot.epoch, snapshot.publishedAt);
  onState(true);
  if (refreshed !== newest) refresh();
}

// A watch may go on while the console answers nothing: only an answer ends that state.
const onState = (connected) => (connected && !isConnected ? readStatus() : setConnected(connected));

// One step at a time, to what is the newest then: in an outage snapshots come faster than they can be shown.
async function refresh() {
  if (isRefreshing) return;
  isRefreshing = true;
  try {
    await followNewest();
  } finally {
    isRefreshing = false;
  }
}

const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

async function followNewest() {
  while (refreshed !== newest) {
    if (!document.hidden) await pause(50);
    refreshed = newest;
    const isDrawn = shownMoment() === null || state.view === "compare";
    if (document.hidden) await drawHidden();
    else await Promise.all([readStatus(), readTimeline(), isDrawn ? draw(false) : null]);
  }
  const isBehind = shownMoment() === null && !document.hidden && isConnected && !(shown?.epoch >= newest);
  if (isBehind && state.view !== "compare") setTimeout(again, AGAIN_MS);
}

// What could not be drawn, or came from a console that is behind, is asked again.
function again() {
  refreshed = null;
  refresh();
}

// A page that nobody sees has its title and its notices alone.
async function drawHidden() {
  const all = await at("v1/overview", null).catch(() => null);
  if (!all) return;
  noticed(all.verdict, all.snapshot.epoch);
  if (shownMoment() === null) drawVerdict(all.verdict, titleOf(), { epoch: null, at: null });
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden || newest === null) return;
  away = lastLooked();
  again();
});

setUpLook();
readLinks();
setUpSearch(
  () => (newest === null ? undefined : shownMoment()),
  (view, name, filters = {}) => go({ view, name, filters }, true),
);

async function onFirst() {
  await readTimeline();
  if (await resolve()) draw();
}

const watched = follow(onSnapshot, onState);
new Worker("ticks.js").onmessage = () => {
  watched();
  readStatus();
};
await readStatus();
shownHash = location.hash;
await onFirst();
