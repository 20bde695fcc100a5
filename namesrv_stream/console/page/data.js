// Answers of the API. An answer about an epoch never changes, so it is kept; moving through time asks once for each.

const MOST_KEPT = 600;
const kept = new Map();
const asked = new Map();

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const here = (path) => path.slice(1); // relative: the console may be below a path of another server
const withEpoch = (path, epoch) => `${path}${path.includes("?") ? "&" : "?"}epoch=${epoch}`;

export function peek(path, epoch) {
  return kept.get(withEpoch(path, epoch));
}

export function at(path, epoch) {
  const url = withEpoch(path, epoch);
  if (kept.has(url)) return Promise.resolve(kept.get(url));
  if (!asked.has(url)) {
    const answer = read(url).then((found) => keep(url, found)).finally(() => asked.delete(url));
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
    response = await fetch(here(url), options);
  } catch {
    throw new Problem(0, "The console does not answer. It may have been stopped; this page goes on when it is back.");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, body.message ?? `The console answers ${response.status}.`);
  return body;
}

export const send = (command) =>
  read("/v1/commands?wait=20s", {
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
  at(path, epoch).catch(() => {}).finally(() => {
    running -= 1;
    if (ahead.length && running < 2) next();
  });
}

// Calls `onSnapshot` with each new snapshot, and `onState` with whether the connection stands.
export function follow(onSnapshot, onState) {
  const source = new EventSource(here("/v1/watch"));
  source.addEventListener("snapshot", (event) => onSnapshot(JSON.parse(event.data)));
  source.addEventListener("progress", () => onState(true));
  source.onopen = () => onState(true);
  source.onerror = () => {
    onState(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(onSnapshot, onState), 3000);
  };
}
