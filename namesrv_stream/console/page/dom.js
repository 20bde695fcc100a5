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

export function table(columns, rows, empty) {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  const head = columns.map((name) => h("th", { scope: "col", class: name.startsWith("#") ? "number" : null }, name.replace("#", "")));
  const cell = (value, index) => h("td", { class: columns[index].startsWith("#") ? "number" : null, "data-label": columns[index].replace("#", "") }, value ?? "");
  const body = rows.map((row) => h("tr", {}, row.map(cell)));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

export const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), children);

const part = encodeURIComponent;
export const link = (kind, name, moment, text = visible(name)) => h("a", { href: address({ view: kind, name, ...moment }) }, text);

export function address({ view = "overview", name = "", epoch = null, other = null, window: span = null }) {
  const query = new URLSearchParams();
  if (epoch !== null) query.set("epoch", epoch);
  if (other !== null) query.set("with", other);
  if (span !== null && span !== "24h") query.set("window", span);
  const path = view === "overview" ? "" : name ? `${view}/${part(name)}` : view;
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

export function parsed(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...name] = path.split("/");
  const values = new URLSearchParams(query ?? "");
  const number = (key) => (/^\d{1,15}$/.test(values.get(key) ?? "") ? Number(values.get(key)) : null);
  const span = ["1h", "6h", "24h", "7d", "30d"].includes(values.get("window")) ? values.get("window") : "24h";
  return { view: view || "overview", name: decoded(name.join("/")), epoch: number("epoch"), other: number("with"), window: span };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
