// Answers of the API. An answer about the past never changes, so it is kept; moving through time asks once for each. The
// present is asked without an epoch, so that the console answers with its newest snapshot, and each answer names it.
// Paths are relative: the console may be below a path of another server.

import { zone } from "./words.js";

const MOST_KEPT = 300;
const LIMIT_MS = 20_000;
export const STATUS_LIMIT_MS = 5_000;
const COMMAND_LIMIT_MS = 40_000;
const PROGRESS_LIMIT_MS = 30_000; // the console sends progress every 15 s

const kept = new Map();
const latest = new Map(); // path -> the newest answer about the present
const asked = new Map();
let limitMs = LIMIT_MS;

export class Problem extends Error {
  constructor(status, message, type = "") {
    super(message);
    this.status = status;
    this.isEmpty = type.endsWith("#no-registry");
  }
}

// While the console does not answer, nobody waits long for it.
export const setReachable = (isReachable) => {
  limitMs = isReachable ? LIMIT_MS : STATUS_LIMIT_MS;
};

// A moment is an epoch, the text of an event time within one, or null for the present.
// Sentences have their times in the reader's zone.
function urlOf(path, moment) {
  const query = new URLSearchParams({ tz: zone() });
  if (moment !== null) query.set(typeof moment === "string" ? "at" : "epoch", moment);
  return `${path}${path.includes("?") ? "&" : "?"}${query}`;
}

// What is known already: an answer about the past, or the newest one about the present.
export const peek = (path, moment) => (moment === null ? latest : kept).get(urlOf(path, moment));

export function at(path, moment) {
  const url = urlOf(path, moment);
  if (moment !== null && kept.has(url)) return Promise.resolve(kept.get(url));
  if (!asked.has(url)) {
    const answer = read(url)
      .then((found) => keep(moment === null ? latest : kept, url, found))
      .finally(() => asked.delete(url));
    asked.set(url, answer);
  }
  return asked.get(url);
}

function keep(among, url, found) {
  among.delete(url); // so that the oldest goes first
  among.set(url, found);
  if (among.size > MOST_KEPT) among.delete(among.keys().next().value);
  return found;
}

// Answers to [path, moment] pairs, as promises settle. Those about the present are of one snapshot, unless snapshots come
// faster than they are answered: then each still names its own.
export async function answers(questions) {
  let found = await Promise.allSettled(questions.map(([path, moment]) => at(path, moment)));
  for (let again = 0; again < 2; again += 1) {
    const epochs = questions.map(([, moment], index) => (moment === null ? found[index].value?.snapshot?.epoch : null));
    const newest = Math.max(...epochs.filter(Number.isFinite));
    const isOlder = (epoch) => Number.isFinite(epoch) && epoch < newest;
    if (!epochs.some(isOlder)) break;
    found = await Promise.all(
      questions.map(([path, moment], index) =>
        isOlder(epochs[index])
          ? at(path, moment).then(
              (value) => ({ status: "fulfilled", value }),
              () => found[index],
            )
          : found[index],
      ),
    );
  }
  return found;
}

export async function read(url, options = {}, limit = limitMs) {
  let response, text;
  try {
    response = await fetch(url, { ...options, signal: AbortSignal.timeout(limit) });
    text = await response.text();
  } catch (error) {
    const cause = error.name === "TimeoutError" ? `has not answered for ${limit / 1000} s` : "is unreachable";
    throw new Problem(
      0,
      `The console ${cause}. Check that it is running. This page continues automatically when it answers.`,
    );
  }
  const body = parsed(text);
  if (!response.ok)
    throw new Problem(
      response.status,
      body.detail ?? `The console answered with status ${response.status}.`,
      body.type,
    );
  return body;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
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
  read(
    "v1/commands?wait=20s",
    { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(command) },
    COMMAND_LIMIT_MS,
  );

// Reads ahead what the reader may look at next: one at a time, and nothing of a former list once there is a new one.
let ahead = [];
let isReading = false;

export async function readAhead(path, epochs) {
  ahead = epochs.filter((epoch) => !kept.has(urlOf(path, epoch))).map((epoch) => [path, epoch]);
  if (isReading) return;
  isReading = true;
  while (ahead.length) await at(...ahead.shift()).catch(() => {});
  isReading = false;
}

// Another registry has replaced the one of all answers so far.
export function forget() {
  kept.clear();
  latest.clear();
}

// Calls `onSnapshot` with each new snapshot, and `onState` with whether the connection stands. A page that nobody sees
// gives its connection back: a browser has six for a console, and would have none left for the seventh page.
// The function that it returns opens a watch again that has sent nothing for too long; call it every few seconds.
export function follow(onSnapshot, onState) {
  let source = null,
    heardMs = 0;
  const heard = (act) => {
    heardMs = Date.now();
    act();
  };
  const open = () => {
    if (source !== null || document.hidden) return;
    const opened = new EventSource("v1/watch");
    source = opened;
    heardMs = Date.now();
    opened.addEventListener("snapshot", (event) => heard(() => onSnapshot(JSON.parse(event.data))));
    opened.addEventListener("progress", () => heard(() => onState(true)));
    opened.onopen = () => heard(() => onState(true));
    opened.onerror = () => {
      if (source !== opened) return;
      read("v1/status", {}, STATUS_LIMIT_MS).then(
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
  return () => {
    if (source === null || Date.now() - heardMs < PROGRESS_LIMIT_MS) return;
    close();
    open();
  };
}
