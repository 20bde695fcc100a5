// Builds elements. Text from brokers only ever becomes text nodes and attributes, never markup.

import { visible } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "circle", "line", "text", "title"]);

export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), children);
export const quiet = (...text) => h("p", { class: "quiet" }, ...text);
export const link = (kind, name, moment, text = visible(name), filters = {}) => h("a", { href: address({ view: kind, name, ...moment, filters }) }, text);

const STATES = { alive: "alive", late: "late: silent for more than half its lease", suspect: "suspect: its lease is over, and the guard against mass expiry holds it", down: "down: expected, and not up", gone: "gone" };

export const dot = (state) => h("i", { class: `dot ${state}`, title: STATES[state], role: "img", "aria-label": state });

export function choice(label, options, value, choose) {
  const option = ([each, text]) => h("option", { value: each, selected: each === value }, text);
  return h("select", { "aria-label": label, onchange: (event) => choose(event.target.value) }, options.map(option));
}

// Where the page is. `at` is a time that was asked for, and stands for `epoch` if it says more.
const FILTERS = ["cluster", "zone", "state", "sort", "q", "system", "table"];
const SPANS = ["1h", "6h", "24h", "7d", "30d"];

export function address({ view = "overview", name = "", epoch = null, at = null, other = null, window: span = null, filters = {} }) {
  const query = new URLSearchParams();
  if (at !== null) query.set("at", at);
  else if (epoch !== null) query.set("epoch", epoch);
  if (other !== null) query.set("with", other);
  if (span !== null && span !== "24h") query.set("window", span);
  for (const key of FILTERS) if (filters[key] !== undefined && filters[key] !== null) query.set(key, filters[key]);
  const path = view === "overview" ? "" : name ? `${view}/${encodeURIComponent(name)}` : view;
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

export function parsed(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...name] = path.split("/");
  const values = new URLSearchParams(query ?? "");
  const number = (key) => (/^\d{1,15}$/.test(values.get(key) ?? "") ? Number(values.get(key)) : null);
  const filters = Object.fromEntries(FILTERS.filter((key) => values.has(key)).map((key) => [key, values.get(key)]));
  const span = SPANS.includes(values.get("window")) ? values.get("window") : "24h";
  return { view: view || "overview", name: decoded(name.join("/")), epoch: number("epoch"), at: values.get("at"), other: number("with"), window: span, filters };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
