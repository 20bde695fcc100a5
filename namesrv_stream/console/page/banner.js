// Says whether the present can be trusted: a job that publishes nothing leaves the last snapshot looking healthy.

import { h, link, patch } from "./dom.js";
import { ago, duration, when } from "./words.js";

const place = document.getElementById("banner");
const statusLine = document.getElementById("status");
const STOPPED = ["silent", "stopped in order"];

// Whether what the page shows of the present may be wrong.
export const isStale = (job, isConnected) =>
  !isConnected || (job !== null && (STOPPED.includes(job.state) || job.stale || Boolean(job.problem)));

export function drawBanner(job, isConnected, isPresent) {
  const told = isPresent && job !== null && isStale(job, isConnected) ? reason(job, isConnected) : null;
  document.body.classList.toggle("stale", told !== null);
  place.hidden = told === null;
  if (told === null) {
    place.dataset.told = "";
    place.replaceChildren();
  } else if (place.dataset.told !== told[0]) {
    // a screen reader is told once, not with each second of the age
    place.dataset.told = told[0];
    place.replaceChildren(
      h("strong", {}, told[0]),
      " ",
      h("span", {}, withCode(told[1])),
      " ",
      h("span", { class: "age", "aria-hidden": "true" }),
    );
  }
  const age = place.querySelector(".age");
  if (age)
    age.textContent = `All below is of ${when(job.eventTime ?? job.publishedAt)}, ${ago(job.eventTime ?? job.publishedAt)}.`;
}

const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

function reason(job, isConnected) {
  if (!isConnected) return ["The console does not answer.", "This page goes on when it is back."];
  if (job.problem) return ["No newer snapshot can be read.", job.problem];
  if (job.state === "silent")
    return [
      `The streaming job has published nothing since ${when(job.publishedAt)}.`,
      "Is it running, and does Kafka answer? `namesrv-stream status` shows more.",
    ];
  if (job.state === "stopped in order")
    return [
      `The streaming job was stopped at ${when(job.publishedAt)}.`,
      "Start it: `namesrv-stream submit`, or `namesrv-stream up` for all on this machine.",
    ];
  return [
    `The streaming job is ${job.state === "running" ? "behind" : job.state}.`,
    "Lookups may be wrong until it has read the rest of the log.",
  ];
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

// The verdict about the moment shown is the first line of the page. About the present it is in the title, as far as a tab
// has room, and in the colour of the icon too.
export function drawVerdict(verdict, title, moment, eventTime = null) {
  const line = document.getElementById("verdict"),
    isPast = moment.epoch != null || moment.at != null;
  const isCritical = !isPast && verdict?.level === "critical";
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
  document.title = [isCritical && verdict.text.split(/[;:,] /)[0], isPast && "past", title, "namesrv-stream"]
    .filter(Boolean)
    .join(" · ");
  const icon = document.getElementById("icon"),
    href = isCritical ? "icon-critical.svg" : "icon.svg";
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
