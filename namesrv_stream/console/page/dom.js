// Builds elements. Text from brokers only ever becomes text nodes and attributes, never markup.

import { STATES, visible } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "circle", "line", "text", "title"]);

export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.append(child);
    else if (SVG_TAGS.has(tag) || tag === "pre" || tag === "option") element.append(String(child));
    else element.append(...textOf(String(child)));
  }
  return element;
}

const CONTROL = /[\p{Cc}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;
const FROM_RIGHT = /[^\s(),;:]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff][^\s(),;:]*/gu;

// The nodes of a text: what has no shape of its own gets one, and a name that is written from right to left is kept apart,
// so that it does not turn the sentence around it.
function textOf(text) {
  const seen = text.replace(CONTROL, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);
  const nodes = [];
  let end = 0;
  for (const found of seen.matchAll(FROM_RIGHT)) {
    const apart = document.createElement("bdi");
    apart.append(found[0]);
    nodes.push(seen.slice(end, found.index), apart);
    end = found.index + found[0].length;
  }
  return [...nodes, seen.slice(end)].filter((node) => node !== "");
}

// A listener is looked up when its event comes, so that a patched element gets the newest one.
function listen(element, event, value) {
  element.listeners ??= {};
  if (!(event in element.listeners)) element.addEventListener(event, (...given) => element.listeners[event](...given));
  element.listeners[event] = value;
}

// Makes the children of an element those given, and keeps each element that is there already, by its data-key or else by
// its place: so what is typed, focused, opened or selected stays. A listener must find elements by its event.
export function patch(place, children) {
  const wanted = new Set(children.map(keyOf));
  for (const child of [...place.childNodes]) if (keyOf(child) && !wanted.has(keyOf(child))) child.remove();
  const keyed = new Map([...place.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let here = place.firstChild;
  for (const child of children) {
    const found = keyOf(child) ? keyed.get(keyOf(child)) : here && !keyOf(here) ? here : null;
    keyed.delete(keyOf(child));
    if (found?.nodeName !== child.nodeName) {
      place.insertBefore(child, here);
    } else {
      if (found === here) here = here.nextSibling;
      else place.insertBefore(found, here);
      become(found, child);
    }
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

const keyOf = (node) => node.dataset?.key ?? "";

function become(element, fresh) {
  if (!(element instanceof Element)) {
    if (element.data !== fresh.data) element.data = fresh.data;
    return;
  }
  for (const [event, value] of Object.entries(fresh.listeners ?? {})) listen(element, event, value);
  for (const { name } of [...element.attributes])
    if (!fresh.hasAttribute(name) && name !== "open") element.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (element.getAttribute(name) === value || (name === "open" && element.nodeName === "DETAILS")) continue;
    element.setAttribute(name, value);
    if (name === "value" && element.nodeName === "INPUT" && element !== document.activeElement) element.value = value;
    if (name === "selected") element.selected = true;
  }
  if (fresh.type === "checkbox") element.checked = fresh.checked;
  patch(element, [...fresh.childNodes]);
  if (element.nodeName === "DETAILS" && element.open) fresh.listeners?.toggle?.({ currentTarget: element });
}

// `key` is the same in each drawing of a view, whatever the title counts.
export const card = (key, title, ...children) =>
  h("section", { class: "card", "data-key": key }, h("h2", {}, title), children);
export const verdictLine = (text, kind) => h("p", { class: `verdict ${kind}`, "data-key": "verdict" }, text);
export const quiet = (...text) => h("p", { class: "quiet" }, ...text);
export const link = (kind, name, moment, text = visible(name), filters = {}) =>
  h("a", { href: address({ view: kind, name, ...moment, filters }) }, text);

// An address, with a button that copies it.
export const addressText = (address, tag = "span") =>
  h(
    "span",
    { class: "address" },
    h(tag, {}, address),
    h(
      "button",
      {
        type: "button",
        class: "copy",
        title: `Copy ${address}`,
        "aria-label": `Copy ${address}`,
        onclick: copied(address),
      },
      h(
        "svg",
        { viewBox: "0 0 16 16", width: 12, height: 12, "aria-hidden": "true" },
        h("path", { d: "M5 5V2h9v9h-3M2 5h9v9H2z", fill: "none", stroke: "currentColor", "stroke-width": 1.6 }),
      ),
    ),
  );

// Copies a text, and says so on the button; without a clipboard the text itself is shown, to be copied by hand.
export const copied = (text) => (event) => {
  const button = event.currentTarget,
    before = [...button.childNodes];
  const told = (words) => {
    if (button.textContent === words) return;
    button.replaceChildren(words);
    setTimeout(() => button.replaceChildren(...before), 2000);
  };
  (navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"))).then(
    () => told("Copied"),
    () => prompt("Copy this text:", text),
  );
};

const MEANINGS = {
  alive: "up",
  late: "late: silent for over three quarters of its heartbeat timeout",
  suspect: "suspect: silent for its whole heartbeat timeout, kept by the mass-expiry guard",
  down: "down: expected, but not up",
  left: "unregistered",
  planned: "in planned absence",
};

export const dot = (state, label = STATES[state] ?? state) =>
  h("i", { class: `dot ${state}`, title: MEANINGS[state] ?? label, role: "img", "aria-label": label });

export const TOPIC_STATES = {
  writable: "writable",
  read_only: "read-only",
  degraded: "degraded",
  not_writable: "not writable",
  without_route: "no route",
  left: "removed",
};
export const kindOf = (state) =>
  ({ without_route: "down", not_writable: "down", degraded: "degraded", left: "" })[state] ?? "alive";
export const topicState = ({ state }) =>
  h("span", { class: "holder" }, dot(kindOf(state), TOPIC_STATES[state]), TOPIC_STATES[state]);

export function choice(label, options, value, choose) {
  const option = ([each, text]) => h("option", { value: each, selected: each === value }, text);
  return h("select", { "aria-label": label, onchange: (event) => choose(event.target.value) }, options.map(option));
}

// Where the page is. `at` is a time that was asked for, and stands for `epoch` if it says more.
const FILTERS = ["cluster", "zone", "state", "sort", "q", "system", "table", "cause", "each"];
const SPANS = ["all", "1h", "6h", "24h", "7d", "30d"];

// The stretch of the track as a parameter of the API, whose timeline begins with the oldest known moment at the earliest.
export const sinceOf = (span) => (span === "all" ? "3650d" : span);

export function address({
  view = "overview",
  name = "",
  epoch = null,
  at = null,
  other = null,
  window: span = null,
  filters = {},
}) {
  const query = new URLSearchParams();
  if (at !== null) query.set("at", at);
  else if (epoch !== null) query.set("epoch", epoch);
  if (other !== null) query.set("with", other);
  if (span !== null && span !== "all") query.set("window", span);
  for (const key of FILTERS) if (filters[key] !== undefined && filters[key] !== null) query.set(key, filters[key]);
  const path = view === "overview" ? "" : name ? `${view}/${encodeURIComponent(name)}` : view;
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

export function parsed(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...name] = path.split("/");
  const values = new URLSearchParams(query ?? "");
  const wrong = [];
  const number = (key) => {
    const text = values.get(key);
    if (text !== null && !/^\d{1,15}$/.test(text))
      wrong.push(`invalid ${key} '${text}'. Use the number of a snapshot.`);
    return wrong.length || text === null ? null : Number(text);
  };
  const filters = Object.fromEntries(FILTERS.filter((key) => values.has(key)).map((key) => [key, values.get(key)]));
  const span = values.get("window") ?? "all";
  if (!SPANS.includes(span)) wrong.push(`invalid window '${span}'. Use ${SPANS.join(", ")}.`);
  const one = name.join("/") && { brokers: "broker", topics: "topic" }[view]; // as the paths of the API
  return {
    wrong,
    view: one || view || "overview",
    name: decoded(name.join("/")),
    epoch: number("epoch"),
    at: values.get("at"),
    other: number("with"),
    from: values.get("from"),
    to: values.get("to"),
    window: span,
    filters,
  };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
