// Says whether the present can be trusted: a job that publishes nothing leaves the last snapshot looking healthy.

import { h, link, patch } from "./dom.js";
import { ago, duration, when } from "./words.js";

const place = document.getElementById("banner");
const statusLine = document.getElementById("status");
const IN_ORDER = ["running", "catching up", "starting"];

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
    age.textContent = `All below is of ${when(job.eventTime ?? job.publishedAt)}, ${ago(job.eventTime ?? job.publishedAt)}.`;
}

const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

// What is wrong with the present, as short as a tab has room for, as a sentence, and what to do.
function reasonOf(job, isConnected) {
  if (!isConnected) return ["no console", "The console does not answer.", "This page goes on when it is back."];
  if (job.problem) return ["tables damaged", "No newer snapshot can be read, or the tables are damaged.", job.problem];
  const state = job.state === "running" ? "behind" : job.state;
  return [`job ${state}`, ...ofState(job, state)];
}

function ofState(job, state) {
  const since = when(job.publishedAt);
  const start = "Start it: `namesrv-stream submit`, or `namesrv-stream up` for all on this machine.";
  const known = {
    silent: [
      `The streaming job has published nothing since ${since}.`,
      "Is it running, and does Kafka answer? `namesrv-stream status` shows more.",
    ],
    "stopped in order": [`The streaming job was stopped at ${since}.`, start],
    dead: [
      `The streaming job is dead, its last publication was at ${since}.`,
      `${start} The log of the last one shows why.`,
    ],
    waiting: ["The streaming job waits.", job.jobProblem ?? "Its log shows what it waits for."],
    "not answering": [
      "The streaming job does not answer.",
      `${job.jobProblem}. If it stays so for a minute, the job ends and a standby goes on.`,
    ],
    "no ticks": [
      `Nothing has come from Kafka since ${since}, no tick either.`,
      "Run a gateway, or set `jobTicker=true`.",
    ],
    "other log": ["The tables are not made from the topic that this console asks.", job.kafka],
    unknown: ["Whether the streaming job runs is not known.", job.kafka],
    standby: [`No streaming job has been active since ${since}.`, "Jobs wait. `namesrv-stream status` shows which."],
    "taking over": ["A streaming job takes the registry over.", "Wait for some seconds."],
  };
  return (
    known[state] ?? [`The streaming job is ${state}.`, "Lookups may be wrong until it has read the rest of the log."]
  );
}

export function drawStatus(job, isConnected, newest) {
  const isWrong = isStale(job, isConnected);
  const kind = !isConnected ? "down" : isWrong ? "late" : job ? "alive" : "";
  const jobText = job && (job.state === "running" ? `job running, term ${job.term}` : `job ${job.state}`);
  const parts = isConnected
    ? [jobText, newest && `epoch ${newest}`, job?.eventTime && `tables of ${ago(job.eventTime)}`]
    : ["the console does not answer; trying again"];
  statusLine.className = kind;
  statusLine.title = job
    ? `run ${job.runId}, published ${when(job.publishedAt)}, lag ${duration(job.lagMillis ?? 0)}`
    : "";
  patch(statusLine, [h("i", { class: `dot ${kind}` }), h("span", {}, parts.filter(Boolean).join(" · "))]);
}

// The verdict about the moment shown is the first line of the page.
export function drawVerdict(known, title, moment, eventTime = null) {
  drawn = [known, title, moment, eventTime];
  const verdict = doubted && known && moment.epoch == null && moment.at == null ? doubted : known;
  const line = document.getElementById("verdict"),
    isPast = moment.epoch != null || moment.at != null;
  line.hidden = !verdict;
  line.className = `verdict ${verdict?.level ?? ""}`;
  patch(
    line,
    verdict
      ? [
          h("span", {}, isPast && eventTime ? `At ${when(eventTime)}: ` : ""),
          link("overview", "", moment, verdict.text),
        ]
      : [],
  );
  shown = { title, isPast, gravest: verdict?.level === "critical" ? verdict.text.split(/[;:,] /)[0] : null };
  drawTab();
}

// What is wrong with the present, and the verdict about it, are in the title, as far as a tab has room, and in the
// colour of the icon too.
function drawTab() {
  if (shown === null) return;
  const told = shown.isPast ? [] : [wrong, shown.gravest].filter(Boolean);
  document.title = [...told, shown.isPast && "past", shown.title, "namesrv-stream"].filter(Boolean).join(" · ");
  const icon = document.getElementById("icon"),
    href = told.length ? "icon-critical.svg" : "icon.svg";
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

const LEVELS = ["ok", "warning", "critical"];
let level = null;

export const wantsNotices = () => globalThis.Notification?.permission === "granted";

// A notice by the browser when the present gets worse while nobody looks, if the reader has asked for notices.
export function noticed(verdict) {
  const isWorse = level !== null && LEVELS.indexOf(verdict.level) > LEVELS.indexOf(level);
  level = verdict.level;
  if (isWorse && document.hidden) new Notification("namesrv-stream", { body: verdict.text, tag: "verdict" });
}

const ask = document.getElementById("notices");
ask.hidden = globalThis.Notification?.permission !== "default";
ask.addEventListener("click", async () => {
  ask.hidden = (await Notification.requestPermission()) !== "default";
});
