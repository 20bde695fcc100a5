// Says whether the present can be trusted: a job that publishes nothing leaves the last snapshot looking healthy.

import { address, h, link, patch } from "./dom.js";
import { ago, duration, when } from "./words.js";

const place = document.getElementById("banner");
const statusLine = document.getElementById("status");
const IN_ORDER = ["running", "catching up", "starting"];
const STATES = {
  "stopped in order": "stopped",
  dead: "not running",
  waiting: "blocked",
  "not answering": "not responding",
};

let wrong = null;
let shown = null;
let doubted = null; // the verdict about the newest snapshot while the present is not known, null while the job runs
let drawn = null; // the last call of drawVerdict

// Whether what the page shows of the present may be wrong: in every state of the job that is not known to be in order.
export const isStale = (job, isConnected) =>
  !isConnected || (job !== null && (!IN_ORDER.includes(job.state) || job.stale || Boolean(job.problem)));

export function drawBanner(job, isConnected, isPresent) {
  const reason = job !== null && isStale(job, isConnected) ? reasonOf(job, isConnected) : null;
  const told = isPresent ? reason : null;
  const text = job?.unknownSince ? job.health : null;
  if (text !== (doubted?.text ?? null)) {
    doubted = text && { level: job.healthLevel, text };
    if (drawn !== null) drawVerdict(...drawn);
  }
  wrong = reason?.[0];
  drawTab();
  document.body.classList.toggle("stale", told !== null);
  place.hidden = told === null;
  if (told === null) {
    place.dataset.told = "";
    place.replaceChildren();
  } else if (place.dataset.told !== told[1]) {
    // a screen reader is told once, not with each second of the age
    place.dataset.told = told[1];
    place.replaceChildren(
      h("strong", {}, told[1]),
      " ",
      h("span", {}, withCode(told[2])),
      " ",
      h("span", { class: "age", "aria-hidden": "true" }),
    );
  }
  const age = place.querySelector(".age");
  if (age)
    age.textContent = `Data as of ${when(job.eventTime ?? job.publishedAt)} (${ago(job.eventTime ?? job.publishedAt)}).`;
}

const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

// What is wrong with the present, as short as a tab has room for, as a sentence, and what to do.
function reasonOf(job, isConnected) {
  if (!isConnected)
    return ["console unreachable", "The console is unreachable.", "This page continues automatically when it answers."];
  if (job.problem) return ["tables damaged", "The tables are damaged, or no newer snapshot can be read.", job.problem];
  const state = job.state === "running" ? "behind" : job.state;
  return [`job ${STATES[state] ?? state}`, ...ofState(job, state)];
}

function ofState(job, state) {
  const since = when(job.publishedAt);
  const start = "Start it with `namesrv-stream submit`, or with `namesrv-stream up` for everything on this machine.";
  const known = {
    silent: [
      `The streaming job has published nothing since ${since}.`,
      "Check that it is running and that Kafka is reachable: `namesrv-stream status`.",
    ],
    "stopped in order": [`The streaming job was stopped at ${since}.`, start],
    dead: [
      `The streaming job is not running. Last update: ${since}.`,
      `${start} The log of the former job shows why it stopped.`,
    ],
    waiting: ["The streaming job is blocked.", job.jobProblem ?? "Its log shows the cause."],
    "not answering": [
      "The streaming job is not responding.",
      `${job.jobProblem}. If this lasts a minute, the job stops and a standby takes over.`,
    ],
    "no ticks": [
      `No records and no clock ticks from Kafka since ${since}.`,
      "Start a gateway, or set `jobTicker=true`.",
    ],
    "other log": ["The tables belong to another Kafka topic than the one that this console reads.", job.kafka],
    unknown: ["The state of the streaming job is unknown.", job.kafka],
    standby: [
      `No streaming job has been active since ${since}.`,
      "Only standby jobs are running. `namesrv-stream status` lists them.",
    ],
    "taking over": ["A streaming job is taking over.", "Wait some seconds."],
  };
  return (
    known[state] ?? [`The streaming job is ${state}.`, "Lookups may be outdated until it has read the rest of the log."]
  );
}

export function drawStatus(job, isConnected, newest) {
  const isWrong = isStale(job, isConnected);
  const kind = !isConnected ? "down" : isWrong ? "late" : job ? "alive" : "";
  const jobText = job && `job ${STATES[job.state] ?? job.state}`;
  const parts = isConnected
    ? [jobText, newest && `newest snapshot ${newest}`, job?.eventTime && `data as of ${ago(job.eventTime)}`]
    : ["console unreachable, retrying"];
  statusLine.className = kind;
  statusLine.title = job
    ? `run ${job.runId}, term ${job.term}, published ${when(job.publishedAt)}, lag ${duration(job.lagMillis ?? 0)}`
    : "";
  patch(statusLine, [h("i", { class: `dot ${kind}` }), h("span", {}, parts.filter(Boolean).join(" · "))]);
}

// The verdict about the moment shown is the first line of the page.
export function drawVerdict(known, title, moment, eventTime = null) {
  drawn = [known, title, moment, eventTime];
  const verdict = doubted && known && moment.epoch == null && moment.at == null ? doubted : known;
  const line = document.getElementById("verdict"),
    isPast = moment.epoch != null || moment.at != null;
  line.hidden = !verdict && !isPast;
  line.className = `verdict ${verdict?.level ?? "asked"}`;
  patch(
    line,
    verdict
      ? [
          h("span", {}, isPast && eventTime ? `At ${when(eventTime)}: ` : ""),
          link("overview", "", moment, verdict.text),
        ]
      : [h("span", { class: "quiet" }, "Reading the state at this time …")],
  );
  shown = { title, isPast, level: verdict?.level, gravest: verdict?.headline ?? known?.headline };
  drawTab();
}

// What is wrong with the present, and the verdict about it, are in the title, as far as a tab has room, and in the
// colour of the icon too.
function drawTab() {
  if (shown === null) return;
  const told = shown.isPast ? [] : [wrong, shown.gravest].filter(Boolean);
  document.title = [...told, shown.isPast && "past", shown.title, "namesrv-stream"].filter(Boolean).join(" · ");
  const kind = wrong || shown.level === "critical" ? "-critical" : "-warning",
    icon = document.getElementById("icon"),
    href = `icon${told.length ? kind : ""}.svg`;
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

// By how much what is drawn of the present is older than the newest snapshot: they may come faster than they are shown.
export function drawLag(snapshot, newest, newestAtMs) {
  const line = document.getElementById("lag"),
    behindMs = snapshot && newest > snapshot.epoch ? newestAtMs - new Date(snapshot.publishedAt) : 0;
  line.hidden = behindMs < 1000;
  line.textContent = line.hidden
    ? ""
    : `Snapshot ${snapshot.epoch} is shown, ${duration(behindMs)} older than the newest, ${newest}.`;
}

const LEVELS = ["ok", "warning", "critical"];
const PLACES = ["all", "zone", "cluster", "zone_in_cluster", "masters"];
let noted = null; // the verdict about the present that somebody saw, or had a notice of

// A notice by the browser while nobody looks, if the reader has asked for notices: the present gets worse, or is well
// again. It leads to its snapshot.
export function noticed(verdict, epoch) {
  const text = noted && newsOf(noted, verdict);
  if (text || !noted || !document.hidden || verdict.level === "ok") noted = verdict;
  if (!text || !document.hidden || globalThis.Notification?.permission !== "granted") return;
  const notice = new Notification("namesrv-stream", { body: text, tag: "verdict", renotify: true });
  notice.onclick = () => {
    focus();
    location.hash = address({ epoch });
    notice.close();
  };
}

function newsOf(before, now) {
  const lost = ({ topics }) => topics.withoutRoute + topics.notWritable;
  const places = ({ causes }) => causes.filter((each) => each.state === "down" && PLACES.includes(each.scope));
  const known = new Set(places(before).map((each) => each.id));
  if (now.level === "ok") return before.level === "ok" ? null : `Well again. ${now.text}`;
  const isWorse =
    LEVELS.indexOf(now.level) > LEVELS.indexOf(before.level) ||
    (lost(now) > 0 && lost(now) >= 2 * lost(before)) ||
    places(now).some((each) => !known.has(each.id)) ||
    (before.brokers.down > 0 && now.brokers.down >= 2 * before.brokers.down);
  return isWorse ? now.text : null;
}

const ask = document.getElementById("notices");
ask.hidden = globalThis.Notification?.permission !== "default";
ask.addEventListener("click", async () => {
  ask.hidden = (await Notification.requestPermission()) !== "default";
});
