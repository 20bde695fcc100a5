// Tables and stories that say how much of them is shown, show more, and can be saved as CSV.

import { at } from "./data.js";
import { choice, copied, h, patch, quiet } from "./dom.js";
import { visible, when } from "./words.js";

const STEP = 100;
const STORY_STEP = 30;
const MOST_A_PAGE = 1000;

export const stamp = (time, text = when) => (time ? h("time", { datetime: time }, text(time)) : "");

// How many rows of a list the reader has asked for, by its name, until another page is shown.
const wanted = new Map();
export const wantedOf = (name, step = STEP) => Math.min(MOST_A_PAGE, wanted.get(name) ?? step);
export const wantedOfStory = () => wantedOf("story", STORY_STEP);
export function forgetWanted() {
  wanted.clear();
  chosen.clear();
}

// The rows that the reader has chosen to copy, by the list's name; a list without an entry shows no boxes.
const chosen = new Map();
const shownOf = (count, total) => `Showing ${count.toLocaleString()} of ${total.toLocaleString()}`;

// `columns`: names, `#` before those of numbers. `more`: the rest of a list of which `rows` is the first page.
// `heads`: what to show in place of the names, each with its value of aria-sort. `of` is where the rows are from, for the
// name of a saved file: the snapshot, and what chose the rows.
export function table(
  columns,
  rows,
  empty,
  { name = "table", total = rows.length, more = null, heads = null, step = STEP, of = {} } = {},
) {
  if (!rows.length) return quiet(empty);
  const isNumber = columns.map((column) => column.startsWith("#"));
  const names = columns.map((column) => column.replace("#", ""));
  const head = () =>
    (heads ?? names.map((text) => [text, null])).map(([text, sort], index) =>
      h("th", { scope: "col", class: isNumber[index] ? "number" : null, "aria-sort": sort }, text),
    );
  const cell = (value, index) =>
    h("td", { class: isNumber[index] ? "number" : null, "data-label": names[index] }, value ?? "");
  const state = { rows, more, keys: new Map() };
  const line = (row) => {
    const key = unique(state.keys, row.slice(0, 3).map(plain).join("|"));
    const toggle = (event) => chosen.get(name)?.[event.target.checked ? "add" : "delete"](key);
    const box = h("input", {
      type: "checkbox",
      "aria-label": "Choose this row",
      checked: chosen.get(name)?.has(key),
      onchange: toggle,
    });
    return h("tr", { "data-key": key }, chosen.has(name) && h("td", { class: "pick" }, box), row.map(cell));
  };

  async function load(limit) {
    const page = state.more ? await state.more(limit) : null;
    if (page === null) return;
    state.rows = [...state.rows, ...page.rows];
    state.more = page.more;
  }

  async function show(event) {
    const list = event.currentTarget.closest(".list");
    const body = list.querySelector("tbody"),
      count = body.childElementCount + step;
    if (count > state.rows.length) await load(step);
    body.append(...state.rows.slice(body.childElementCount, count).map(line));
    wanted.set(name, body.childElementCount);
    patch(list.querySelector(".foot"), foot(body.childElementCount));
  }

  async function save() {
    while (state.more) await load(MOST_A_PAGE);
    download(
      fileName(name, of),
      state.rows.map((row) => flat(row.item)),
    );
  }

  // With boxes at its rows, or without.
  function choose(event) {
    if (chosen.has(name)) chosen.delete(name);
    else chosen.set(name, new Set());
    const list = event.currentTarget.closest(".list");
    const count = list.querySelector("tbody").childElementCount;
    state.keys.clear();
    patch(list, whole(state.rows.slice(0, count)));
  }

  function copy(event) {
    const picked = [...event.currentTarget.closest(".list").querySelectorAll("tbody tr")].filter(
      (each) => each.querySelector(".pick input")?.checked,
    );
    const texts = picked.map((each) =>
      [...each.querySelectorAll("td:not(.pick)")].map((td) => td.innerText.trim().replace(/\s+/g, " ")),
    );
    copied([names, ...texts].map((each) => each.join("\t")).join("\n"))(event);
  }

  function foot(count) {
    const rest = state.more !== null || count < state.rows.length;
    const isFull = state.more !== null && count >= MOST_A_PAGE; // one answer, which the page asks for when a snapshot comes
    return [
      quiet(count < total ? `${shownOf(count, total)}${isFull ? ". CSV saves all rows." : "."}` : ""),
      h(
        "span",
        { class: "buttons" },
        h("button", { type: "button", onclick: show, hidden: !rest || isFull }, `Show ${step} more`),
        h("button", { type: "button", class: "choose", onclick: copy, hidden: !chosen.has(name) }, "Copy chosen rows"),
        h("button", { type: "button", class: "choose", onclick: choose }, chosen.has(name) ? "Done" : "Choose rows"),
        h("button", { type: "button", class: "csv", onclick: save, title: "Save all rows as CSV" }, "CSV"),
      ),
    ];
  }

  const shown = rows.slice(0, Math.max(step, wanted.get(name) ?? 0));
  const whole = (some) => {
    const heads = h("thead", {}, h("tr", {}, chosen.has(name) && h("th", { class: "pick" }, "choose"), head()));
    return [
      h("div", { class: "scroll" }, h("table", {}, heads, h("tbody", {}, some.map(line)))),
      h("div", { class: "foot" }, foot(some.length)),
    ];
  };
  return h("div", { class: "list", "data-key": name }, whole(shown));
}

function unique(seen, key) {
  const count = (seen.get(key) ?? 0) + 1;
  seen.set(key, count);
  return count === 1 ? key : `${key}#${count}`;
}

// What chooses a list, as the address of the page has it: `chooser(…)(key)(value, isFinal)`; `*` chooses all.
export const chooser =
  (filters, go) =>
  (key) =>
  (value, isFinal = true) =>
    go({ filters: { ...filters, [key]: value === "*" ? undefined : value } }, isFinal);

export function listPath(kind, { filters }, more = {}) {
  const query = new URLSearchParams({ sort: filters.sort ?? "name", ...more });
  for (const key of ["cluster", "zone", "state", "q", "cause"])
    if (filters[key] !== undefined) query.set(key, filters[key]);
  return `v1/${kind}?${query}`;
}

export function filterForm(all, { filters }, go, states, names, ...more) {
  const choose = chooser(filters, go);
  const select = (key, options) =>
    choice(key[0].toUpperCase() + key.slice(1), [["*", `any ${key}`], ...options], filters[key] ?? "*", choose(key));
  const places = (key, column) =>
    select(
      key,
      [...new Set((all?.groups ?? []).map((each) => each[column] ?? ""))].map((name) => [
        name,
        visible(name) || `no ${key}`,
      ]),
    );
  return h(
    "form",
    { class: "filters", onsubmit: (event) => event.preventDefault() },
    places("cluster", "clusterName"),
    places("zone", "zoneName"),
    select("state", Object.entries(states)),
    h("input", {
      name: "q",
      type: "search",
      placeholder: names,
      "aria-label": `${names} contains`,
      value: filters.q ?? "",
      oninput: (event) => choose("q")(event.target.value.trim() || "*", false),
    }),
    more,
  );
}

// Heads of a table that the server sorts: `sorts` has the name of a column's order, `now` the present one.
export function sortHeads(columns, sorts, now, choose) {
  return columns.map((column) => {
    const name = column.replace("#", ""),
      key = sorts[name];
    const turn = now === key ? "ascending" : now === `-${key}` ? "descending" : null;
    if (!key) return [name, null];
    return [
      h(
        "button",
        { type: "button", class: "sort", onclick: () => choose(turn === "ascending" ? `-${key}` : key) },
        name,
        turn && (turn === "ascending" ? " ↑" : " ↓"),
      ),
      turn,
    ];
  });
}

// The first page of a list of the API, with the pages behind it.
export function pages(columns, first, { path, epoch, key, row, empty, ...options }) {
  const rest = (next) =>
    next === null
      ? null
      : async (limit) => {
          const page = await at(
            `${path}${path.includes("?") ? "&" : "?"}limit=${limit}&after=${encodeURIComponent(next)}`,
            epoch ?? first.snapshot.epoch,
          );
          return { rows: rowsOf(page[key], row), more: rest(page.next) };
        };
  return table(columns, rowsOf(first[key], row), empty, {
    total: first.total,
    more: rest(first.next),
    of: { ...first.snapshot, query: path.split("?")[1] },
    ...options,
  });
}

// The rows of a table, each with the item that it shows: a saved file has the item's fields, each of one kind of value.
export const rowsOf = (items, row) => items.map((item) => Object.assign(row(item), { item }));

function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join("");
  if (!(value instanceof Node)) return String(value ?? "");
  return value.nodeName === "TIME"
    ? value.getAttribute("datetime")
    : value.textContent || value.getAttribute?.("aria-label") || "";
}

// An item's fields, also those of its parts: `down.goneAt`.
function flat(item, prefix = "") {
  return Object.assign(
    {},
    ...Object.entries(item).map(([key, value]) => {
      if (Array.isArray(value)) return { [prefix + key]: value.join(" ") };
      return value !== null && typeof value === "object" ? flat(value, `${prefix}${key}.`) : { [prefix + key]: value };
    }),
  );
}

function fileName(name, { epoch, eventTime, query = "" }) {
  const chosen = [...new URLSearchParams(query)]
    .filter(([key, value]) => value && !["sort", "system", "from", "to"].includes(key))
    .map(([key, value]) => `${key}=${value}`);
  return `${[name, ...chosen, epoch && `epoch-${epoch}`, eventTime?.slice(0, 19)]
    .filter(Boolean)
    .join("_")
    .replace(/[^\p{L}\d.=_-]+/gu, "-")}.csv`;
}

// A spreadsheet takes the text for UTF-8 because it begins with a byte order mark.
function download(name, items) {
  const columns = [...new Set(items.flatMap(Object.keys))];
  const rows = [columns, ...items.map((item) => columns.map((column) => String(item[column] ?? "")))];
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const harmless = (text) => (/^[=+\-@\t]/.test(text) && !/^-?[\d.]+$/.test(text) ? `'${text}` : text); // no formula for a spreadsheet
  const text = rows.map((row) => row.map((each) => quoted(harmless(each))).join(",")).join("\r\n");
  const url = URL.createObjectURL(new Blob([`\uFEFF${text}\r\n`], { type: "text/csv" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// The newest lines of a story of `total` lines; `ask` draws the page anew, with as many as are wanted then.
export function story(lines, empty, total = null, ask = null) {
  if (!lines.length) return quiet(empty);
  const show = () => {
    wanted.set("story", lines.length + STORY_STEP);
    ask();
  };
  const isWhole = lines.length >= Math.min(total, MOST_A_PAGE);
  return h(
    "div",
    {},
    eventList(lines, (text) => h("span", {}, text)),
    total !== null &&
      h(
        "div",
        { class: "foot" },
        quiet(lines.length < total ? `${shownOf(lines.length, total)}.` : ""),
        h(
          "button",
          { type: "button", onclick: show, hidden: isWhole },
          `Show ${Math.min(STORY_STEP, total - lines.length)} older`,
        ),
      ),
  );
}

// Events in one line each; the names in it are shown on demand.
export const briefly = (lines, empty) =>
  lines.length ? eventList(lines, (text) => h("details", { class: "brief" }, h("summary", {}, text))) : quiet(empty);

function eventList(lines, shown) {
  const keys = new Map();
  const item = (line) =>
    h(
      "li",
      { class: kindOf(line), "data-key": unique(keys, `${line.eventTime} ${line.text}`) },
      h("time", { datetime: line.eventTime }, when(line.eventTime)),
      shown(line.text),
    );
  return h("ol", { class: "story" }, lines.map(item));
}

const KINDS = {
  down: ["EXPIRED", "CHANNEL_CLOSED", "REFUSED"],
  planned: ["UNREGISTERED", "MOVED", "RESTARTED"],
  came: ["REGISTERED", "ID_TAKEN"],
  other: ["ID_LOST", "CHANGED", "TOPICS_CHANGED", "LOG_GAP"],
};
/** Type of an event -> its class; the types of operators' commands are not in it. */
const KIND_OF_TYPE = Object.fromEntries(
  Object.entries(KINDS).flatMap(([kind, types]) => types.map((type) => [type, kind])),
);

function kindOf(line) {
  return KIND_OF_TYPE[line.type] ?? "asked";
}
