// Answers of the API. An answer about an epoch never changes, so it is kept; moving through time asks once for each.
// Paths are relative: the console may be below a path of another server.

import { zone } from "./words.js";

const MOST_KEPT = 600;
const kept = new Map();
const asked = new Map();

export class Problem extends Error {
  constructor(status, message, type = "") {
    super(message);
    this.status = status;
    this.isEmpty = type.endsWith("#no-registry");
  }
}

// A moment is an epoch, or the text of an event time within one.
// Sentences have their times in the reader's zone.
const withEpoch = (path, epoch) => {
  const moment = typeof epoch === "string" ? `at=${encodeURIComponent(epoch)}` : `epoch=${epoch}`;
  return `${path}${path.includes("?") ? "&" : "?"}${moment}&tz=${encodeURIComponent(zone())}`;
};

export function peek(path, epoch) {
  return kept.get(withEpoch(path, epoch));
}

export function at(path, epoch) {
  const url = withEpoch(path, epoch);
  if (kept.has(url)) return Promise.resolve(kept.get(url));
  if (!asked.has(url)) {
    const answer = read(url)
      .then((found) => keep(url, found))
      .finally(() => asked.delete(url));
    asked.set(url, answer);
  }
  return asked.get(url);
}

function keep(url, found) {
  kept.set(url, found);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return found;
}

export async function read(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch {
    throw new Problem(
      0,
      "The console is unreachable. Check that it is running. This page continues automatically when it answers.",
    );
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok)
    throw new Problem(
      response.status,
      body.detail ?? `The console answered with status ${response.status}.`,
      body.type,
    );
  return body;
}

// A date as the time at which that day begins, any other text as it is.
export const dayBegin = (text) => text.trim().replace(/^\d{4}-\d\d-\d\d$/, "$& 00:00");

// The moment that a reader has typed: an epoch, `now`, or a time in `zone`. `at` is null if it is all of an epoch.
export async function momentOf(text) {
  if (text.trim().toLowerCase() === "now") return { epoch: null, at: null };
  if (/^\d{1,15}$/.test(text.trim())) return { epoch: Number(text), at: null };
  const { snapshot } = await read(`v1/overview?${new URLSearchParams({ at: text, tz: zone() })}`);
  const whole = (await at("v1/overview", snapshot.epoch)).snapshot;
  return { epoch: snapshot.epoch, at: whole.eventTime === snapshot.eventTime ? null : snapshot.eventTime };
}

export const send = (command) =>
  read("v1/commands?wait=20s", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(command),
  });

// Reads ahead what the reader may look at next: two at a time, and nothing of a former list once there is a new one.
let ahead = [];
let running = 0;

export function readAhead(path, epochs) {
  ahead = epochs.filter((epoch) => !kept.has(withEpoch(path, epoch))).map((epoch) => [path, epoch]);
  while (running < 2 && ahead.length) next();
}

function next() {
  const [path, epoch] = ahead.shift();
  running += 1;
  at(path, epoch)
    .catch(() => {})
    .finally(() => {
      running -= 1;
      if (ahead.length && running < 2) next();
    });
}

// Calls `onSnapshot` with each new snapshot, and `onState` with whether the connection stands. A page that nobody sees
// gives its connection back: a browser has six for a console, and would have none left for the seventh page.
export function follow(onSnapshot, onState) {
  let source = null;
  const open = () => {
    if (source !== null || document.hidden) return;
    const opened = new EventSource("v1/watch");
    source = opened;
    opened.addEventListener("snapshot", (event) => onSnapshot(JSON.parse(event.data)));
    opened.addEventListener("progress", () => onState(true));
    opened.onopen = () => onState(true);
    opened.onerror = () => {
      if (source !== opened) return;
      read("v1/status").then(
        () => onState(true),
        () => onState(false),
      ); // a proxy may end a stream that is in order
      if (opened.readyState === EventSource.CLOSED)
        setTimeout(() => {
          if (source === opened) {
            close();
            open();
          }
        }, 3000);
    };
  };
  const close = () => {
    source?.close();
    source = null;
  };
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  open();
}
