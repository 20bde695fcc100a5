// What differs between two moments: numbers by table first, then the rows. What is the same is not shown.

import { card, h, link } from "./dom.js";
import { pages, rowsOf, table, wantedOf } from "./lists.js";
import { brokerText, counted, perm, snapshotText, when } from "./words.js";

const TABLES = {
  live: "leases",
  broker: "roles",
  cluster: "cluster members",
  topic: "topic rows",
  topic_mapping: "static mappings",
  filter: "filter servers",
  kv_config: "KV values",
  namesrv_config: "settings",
};

const diffPath = ({ filters }, before, after) =>
  `v1/diff?from=${before}&to=${after}${filters.table ? `&table=${encodeURIComponent(filters.table)}` : ""}`;

export function askComparison(state, before, after) {
  return [
    [`${diffPath(state, before, after)}&limit=${wantedOf("differences")}`, after],
    ["v1/overview", before],
    ["v1/overview", state.epoch === null ? null : after],
  ];
}

export function comparison([found, before, after], moment, state) {
  const pinned = { ...moment, epoch: after.snapshot.epoch, other: before.snapshot.epoch };
  const of = { before, after };
  const side = (each) =>
    h(
      "p",
      { class: "moment" },
      h("strong", {}, snapshotText(each.snapshot)),
      ` — snapshot ${each.snapshot.epoch}: ${counted(each.counts.alive, "broker")} up, ${each.counts.late === null ? "" : `${each.counts.late} late, `}${counted(each.counts.brokerNames, "broker group")}, ${counted(each.counts.topics, "topic")}`,
    );
  const items = Object.entries(found.counts).map(([name, each]) => ({ table: name, ...each }));
  const counts = rowsOf(items, (each) => [
    link("compare", "", pinned, TABLES[each.table] ?? each.table, { table: each.table }),
    each.added,
    each.removed,
    each.changed,
  ]);
  const sign = (each) =>
    each.before === null ? ["+ added", "came"] : each.after === null ? ["− removed", "left"] : ["~ changed", "asked"];
  const row = (each) => [
    h("b", { class: sign(each)[1] }, sign(each)[0]),
    TABLES[each.table] ?? each.table,
    named(each, of, pinned),
    values(each),
  ];
  const one = state.filters.table;
  return [
    h("div", { class: "columns even" }, card("before", "Before", side(before)), card("after", "After", side(after))),
    card(
      "changes",
      "Changes by table",
      table(["table", "#added", "#removed", "#changed"], counts, "No differences.", {
        name: "changes",
        of: after.snapshot,
      }),
    ),
    found.total > 0 &&
      card(
        "differences",
        `${counted(found.total, "difference")}${one ? ` in ${TABLES[one] ?? one}` : ""}`,
        one && h("p", {}, link("compare", "", pinned, "All tables")),
        pages(["change", "table", "key", "what"], found, {
          path: diffPath(state, before.snapshot.epoch, after.snapshot.epoch),
          epoch: state.newest,
          key: "differences",
          row,
          name: "differences",
          of: { ...after.snapshot, query: `since-epoch=${before.snapshot.epoch}` },
          empty: "",
        }),
      ),
  ];
}

// A key, with a link to the moment that has the row.
function named(each, { before, after }, moment) {
  const epoch = (each.after === null ? before : after).snapshot.epoch;
  const there = { epoch, window: moment.window };
  const row = each.after ?? each.before;
  const text =
    each.table === "broker"
      ? brokerText({ brokerName: each.key[0], brokerId: each.key[1] })
      : each.key.join(" ").trim();
  if (each.table === "topic") return link("topic", each.key[0], there, text);
  if (each.table === "cluster") return link("broker", each.key[1], there, text);
  const name = each.table === "broker" ? each.key[0] : row?.brokerName;
  return name ? link("broker", name, there, each.table === "live" ? `${brokerText(row)} ${text}` : text) : text;
}

function values({ before, after, key }) {
  if (before && after)
    return Object.keys(after)
      .filter((name) => text(before[name]) !== text(after[name]))
      .map((name) => h("div", {}, `${name}: ${shown(name, before[name])} → ${shown(name, after[name])} `));
  const row = after ?? before;
  return Object.entries(row)
    .filter(([, value]) => value !== null && value !== "" && !key.includes(value))
    .map(([name, value]) => `${name} ${shown(name, value)}`)
    .join(", ");
}

function shown(name, value) {
  if (value === null || value === undefined) return "none";
  if (name === "perm") return perm(value);
  if (name.endsWith("At") || name.endsWith("Since")) return when(value);
  return text(value);
}

const text = (value) =>
  value === null || value === undefined ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value);
