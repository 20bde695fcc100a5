// The page: the URL says which view and which moment, the track moves the moment, and the watch keeps the present fresh.

import { address, h, link, parsed } from "./dom.js";
import { at, follow, peek, Problem, read, readAhead, send } from "./data.js";
import { comparison, views } from "./views.js";
import { Track } from "./track.js";
import { ago, duration, when } from "./words.js";

const content = document.getElementById("content");
const nav = document.getElementById("nav");
const statusLine = document.getElementById("status");
const dialog = document.getElementById("command");
const TABS = [["overview", "Overview"], ["topics", "Topics"], ["churn", "Churn"], ["compare", "Compare"]];
const AHEAD = 8;

let state = parsed(location.hash);
let newest = null;
let isConnected = false;
let drawing = 0;
let shownHash = null;
let job = null;

const track = new Track(document.getElementById("time"), (epoch, isFinal) => go({ epoch }, isFinal), (window) => { go({ window }, true); readTimeline(); }, expanded);

function expanded(mark) {
  const asked = `/v1/timeline?since=${state.window}&above=${mark.firstEpoch - 1}`;
  return at(asked, mark.epoch).then((found) => found.marks, () => null);
}

function go(change, isFinal) {
  state = { ...state, ...change };
  const url = address(state);
  if (isFinal) shownHash = url;
  history[isFinal && location.hash !== url ? "pushState" : "replaceState"](null, "", url);
  draw();
}

addEventListener("popstate", onAddress);
addEventListener("hashchange", onAddress);

function onAddress() {
  if (location.hash === shownHash) return;
  const before = state;
  state = parsed(location.hash);
  shownHash = location.hash;
  if (before.window !== state.window) readTimeline();
  if (before.view !== state.view || before.name !== state.name) scrollTo(0, 0);
  draw();
}

function asked() {
  if (state.view === "compare") {
    const after = state.epoch ?? newest;
    const before = state.other ?? Math.max(1, track.marks.at(Math.max(0, track.index(state.epoch) - 1) - 1)?.epoch ?? after - 1);
    return [[`/v1/diff?from=${before}&to=${after}`, newest], ["/v1/overview", before], ["/v1/overview", after]];
  }
  const view = views[state.view] ?? views.overview;
  return view.ask(state).map((path) => [path, state.epoch ?? newest]);
}

async function draw() {
  const turn = ++drawing;
  drawNav();
  track.place(state.epoch);
  track.spans.value = state.window;
  if (newest === null) return;
  const questions = asked();
  const here = questions.map(([path, epoch]) => peek(path, epoch));
  if (here.every(Boolean)) {
    show(here);
  } else {
    content.classList.add("waiting");
    const found = await Promise.allSettled(questions.map(([path, epoch]) => at(path, epoch)));
    if (turn !== drawing) return;
    const failed = found.filter((each) => each.status === "rejected");
    if (failed.length === found.length || failed.some((each) => each.reason.status !== 404)) showProblem(failed[0].reason);
    else show(found.map((each) => each.value));
  }
  content.classList.remove("waiting");
  lookAhead(questions[0][0]);
}

function lookAhead(path) {
  if (state.view === "compare") return;
  const marks = track.marks, here = track.index(state.epoch);
  const near = [];
  for (let step = 1; step <= AHEAD; step += 1) near.push(here - step, here + step);
  const spread = Array.from({ length: 24 }, (_, index) => Math.floor((index * marks.length) / 24));
  const wanted = [...near, ...spread].map((index) => marks[index]?.epoch).filter(Boolean);
  readAhead(path, [...new Set(wanted)]);
}

function show(found) {
  const moment = { epoch: state.epoch, window: state.window };
  const view = views[state.view] ?? views.overview;
  const isCompare = state.view === "compare";
  const title = isCompare ? "Compare two moments" : view.title(state);
  document.title = `${title} · namesrv-stream`;
  const parts = isCompare ? comparison(found, moment) : view.show(found, moment, actions);
  const snapshot = found.find((each) => each?.snapshot)?.snapshot;
  if (snapshot && state.epoch !== null) track.place(state.epoch, snapshot.eventTime);
  const share = h("button", { type: "button", class: "share-link", onclick: copyLink }, "Copy link to this moment");
  content.replaceChildren(h("div", { class: "title" }, h("h1", {}, title), isCompare ? compareForm(found) : state.epoch !== null && h("span", {}, link("compare", "", { ...moment, other: state.epoch, epoch: null }, "Compare with now"), " ", share)), ...parts.filter(Boolean));
}

function copyLink(event) {
  const url = new URL(address({ ...state, epoch: state.epoch ?? newest }), location.href).href;
  const done = (text) => { event.target.textContent = text; };
  (navigator.clipboard?.writeText(url) ?? Promise.reject(new Error("no clipboard"))).then(() => done("Copied"), () => done(url));
}

function compareForm([, before, after]) {
  const set = (which) => (event) => go({ [which]: Number(event.target.value) || null }, true);
  const input = (name, value, which) => h("label", {}, name, " ", h("input", { type: "number", min: 1, max: newest, value, onchange: set(which) }));
  return h("span", { class: "pair" }, input("epoch", before.snapshot.epoch, "other"), input("and", after.snapshot.epoch, "epoch"), h("small", { class: "quiet" }, "the track moves the second"));
}

function showProblem(problem) {
  const advice = problem.status === 410 ? link("churn", "", { window: state.window }, "The history goes further back than the snapshots.") : "";
  content.replaceChildren(h("section", { class: "card problem", role: "alert" }, h("h2", {}, problem.status === 404 ? "Not found at this moment" : "This cannot be shown now"), h("p", {}, problem.message), advice));
}

function actions(list) {
  return h("p", { class: "buttons" }, list.map(([text, command, effect]) => h("button", { type: "button", onclick: () => ask(text, command, effect) }, text)));
}

function ask(text, command, effect) {
  const outcome = h("p", { role: "status" });
  const reason = h("input", { name: "reason", required: true, maxlength: 500, placeholder: "why, for the history", "aria-label": "Reason" });
  const onSubmit = async (event) => {
    event.preventDefault();
    outcome.textContent = "Sent; waiting until it is published …";
    try {
      const done = await send({ ...command, reason: reason.value });
      outcome.textContent = done.epoch ? `Published with epoch ${done.epoch}.` : `Kafka has it at offset ${done.offset}; no snapshot has it yet. Is the job running?`;
    } catch (problem) {
      outcome.textContent = problem.message;
    }
  };
  const form = h("form", { onsubmit: onSubmit }, h("h2", {}, text.replace(" …", "")), h("p", {}, effect), reason, outcome,
    h("p", { class: "buttons" }, h("button", { class: "primary" }, "Send"), h("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.replaceChildren(form);
  dialog.showModal();
  reason.focus();
}

function drawNav() {
  const moment = { epoch: state.epoch, window: state.window };
  nav.replaceChildren(...TABS.map(([view, text]) => h("a", { href: address({ view, ...moment }), "aria-current": view === state.view ? "page" : null }, text)));
}

function drawStatus() {
  const kind = !isConnected ? "away" : job?.state === "running" ? (job.stale ? "late" : "alive") : job ? "late" : "";
  const jobText = job ? (job.state === "running" ? `job running, term ${job.term}` : `job ${job.state}`) : "";
  const fresh = job?.eventTime ? `tables of ${ago(job.eventTime)}` : "";
  statusLine.className = kind;
  statusLine.title = job ? `run ${job.runId}, published ${when(job.publishedAt)}, lag ${duration(job.lagMillis ?? 0)}` : "";
  statusLine.replaceChildren(h("i", { class: `dot ${kind === "away" ? "gone" : kind}` }), h("span", {}, isConnected ? [jobText, newest ? `epoch ${newest}` : "", fresh].filter(Boolean).join(" · ") : "the console does not answer; trying again"));
}

async function readStatus() {
  try {
    job = await read("/v1/status");
    newest = Math.max(newest ?? 0, job.epoch);
  } catch (problem) {
    if (newest === null) showProblem(problem);
  }
  drawStatus();
}

async function readTimeline() {
  if (newest === null) return;
  try {
    track.show(await at(`/v1/timeline?since=${state.window}`, newest));
    lookAhead(asked()[0][0]);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
  }
}

let coming = null;
function onSnapshot(snapshot) {
  isConnected = true;
  if (newest === snapshot.epoch && coming === null && track.marks.length) return;
  newest = snapshot.epoch;
  coming ??= setTimeout(async () => {  // several snapshots in a moment are one step
    coming = null;
    await readTimeline();
    if (state.epoch === null || state.view === "compare") draw();
    readStatus();
  }, 50);
}

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = new FormData(event.target).get("q").trim();
  if (!name) return;
  at(`/v1/brokers/${encodeURIComponent(name)}`, state.epoch ?? newest).then(() => "broker", () =>
    at(`/v1/topics/${encodeURIComponent(name)}`, state.epoch ?? newest).then(() => "topic", () => "topics")).then((view) => { go({ view, name }, true); });
});

follow(onSnapshot, (connected) => { isConnected = connected; drawStatus(); });
setInterval(readStatus, 5000);
await readStatus();
await readTimeline();
draw();
