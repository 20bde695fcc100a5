// Tables and stories that say how much of them is shown, show more, and can be saved as CSV.

import { at } from "./data.js";
import { h, quiet } from "./dom.js";
import { when } from "./words.js";

const STEP = 100;
const STORY_STEP = 30;
const MOST_A_PAGE = 1000;

export const stamp = (time, text = when) => (time ? h("time", { datetime: time }, text(time)) : "");

// `columns`: names, `#` before those of numbers. `more`: the rest of a list of which `rows` is the first page.
// `heads`: what to show in place of the names, each with its value of aria-sort.
export function table(columns, rows, empty, { name = "table", total = rows.length, more = null, heads = null, step = STEP } = {}) {
  if (!rows.length) return quiet(empty);
  const isNumber = columns.map((column) => column.startsWith("#"));
  const names = columns.map((column) => column.replace("#", ""));
  const head = (heads ?? names.map((text) => [text, null])).map(([text, sort], index) => h("th", { scope: "col", class: isNumber[index] ? "number" : null, "aria-sort": sort }, text));
  const cell = (value, index) => h("td", { class: isNumber[index] ? "number" : null, "data-label": names[index] }, value ?? "");
  const body = h("tbody");
  const shown = quiet();
  const button = h("button", { type: "button", onclick: show }, `Show ${step} more`);
  const state = { rows, count: 0, more };

  async function show() {
    if (state.count + step > state.rows.length) await load(step);
    body.append(...state.rows.slice(state.count, state.count + step).map((row) => h("tr", {}, row.map(cell))));
    state.count = Math.min(state.rows.length, state.count + step);
    told();
  }

  async function load(limit) {
    const page = state.more ? await state.more(limit) : null;
    if (page === null) return;
    state.rows = [...state.rows, ...page.rows];
    state.more = page.more;
  }

  function told() {
    const rest = state.more !== null || state.count < state.rows.length;
    shown.textContent = rest ? `${state.count.toLocaleString()} of ${total.toLocaleString()} are shown.` : "";
    button.hidden = !rest;
  }

  async function save() {
    while (state.more) await load(MOST_A_PAGE);
    download(`${name}.csv`, [names, ...state.rows.map((row) => row.map(plain))]);
  }

  body.append(...state.rows.slice(0, step).map((row) => h("tr", {}, row.map(cell))));
  state.count = Math.min(step, state.rows.length);
  told();
  return h("div", { class: "list" }, h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), body)),
    h("div", { class: "foot" }, shown, h("span", { class: "buttons" }, button, h("button", { type: "button", class: "csv", onclick: save, title: "Save all rows as CSV" }, "CSV"))));
}

// The first page of a list of the API, with the pages behind it.
export function pages(columns, first, { path, epoch, key, row, empty, ...options }) {
  const rest = (next) => next === null ? null : async (limit) => {
    const page = await at(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}&after=${encodeURIComponent(next)}`, epoch);
    return { rows: page[key].map(row), more: rest(page.next) };
  };
  return table(columns, first[key].map(row), empty, { total: first.total, more: rest(first.next), ...options });
}

function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join("");
  if (!(value instanceof Node)) return String(value ?? "");
  return value.nodeName === "TIME" ? value.getAttribute("datetime") : value.textContent || value.getAttribute?.("aria-label") || "";
}

function download(name, rows) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const harmless = (text) => (/^[=+\-@\t]/.test(text) && !/^-?\d/.test(text) ? `'${text}` : text);  // no formula for a spreadsheet
  const text = rows.map((row) => row.map((each) => quoted(harmless(each))).join(",")).join("\r\n");
  const url = URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function story(lines, empty) {
  if (!lines.length) return quiet(empty);
  const item = (line) => h("li", { class: kindOf(line) }, h("time", { datetime: line.eventTime }, when(line.eventTime)), h("span", {}, line.text));
  const list = h("ol", { class: "story" }, lines.slice(0, STORY_STEP).map(item));
  const rest = lines.slice(STORY_STEP);
  const button = h("button", { type: "button", onclick: () => { list.append(...rest.splice(0, STORY_STEP).map(item)); told(); } });
  const told = () => { button.textContent = `Show ${Math.min(STORY_STEP, rest.length)} older`; button.hidden = !rest.length; };
  told();
  return h("div", {}, list, button);
}

function kindOf(line) {
  const text = `${line.type ?? ""} ${line.text}`;
  if (/expired|lost its last|unregistered in order|EXPIRED|CHANNEL_CLOSED|UNREGISTERED/.test(text)) return "left";
  if (/asked for/.test(text)) return "asked";
  return / registered as |alive already|REGISTERED/.test(text) ? "came" : "other";
}
