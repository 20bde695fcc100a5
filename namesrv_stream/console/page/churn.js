// Sessions of brokers over the length of the track, who flapped, what ended together, rejected records.

import { sessionsChart } from "./chart.js";
import { card, h, link, quiet } from "./dom.js";
import { rowsOf, stamp, table } from "./lists.js";
import { clock, counted, duration } from "./words.js";

const FEW = 6;
const FEW_ROWS = 20;

export const churn = {
  title: () => "Churn",
  ask: ({ window: span }) => [`v1/churn?since=${span === "all" ? "30d" : span}`],
  show: ([found], moment) => {
    const name = (text) => link("broker", text.split(" ").slice(-2)[0], moment, text);
    const flapping = rowsOf(found.flapping, (each) => [
      name(each.broker),
      each.unplannedEnds,
      each.flaps,
      duration(each.shortestMillis),
    ]);
    const outages = rowsOf(found.outages, (each) => [
      stamp(each.firstGoneAt),
      stamp(each.lastGoneAt, clock),
      each.count,
      Object.entries(each.clusters)
        .map(([cluster, count]) => `${cluster}: ${count}`)
        .join(", "),
      names(each.brokers, name),
    ]);
    const rejected = rowsOf(found.rejected, (each) => [
      stamp(each.eventTime),
      each.offset,
      each.key,
      each.reason,
      h("code", {}, each.text),
    ]);
    return [
      card("Up and down", sessionsChart(found, name)),
      h(
        "div",
        { class: "columns" },
        card(
          "Flapping",
          table(
            ["broker", "#unplanned ends", "#back within 10 min", "shortest session"],
            flapping,
            "No broker ended unplanned in this time.",
            { name: "flapping", step: FEW_ROWS, of: found.snapshot },
          ),
        ),
        card(
          "Several at once",
          table(
            ["from", "to", "#brokers", "clusters", "which"],
            outages,
            "No two brokers ended unplanned within a minute.",
            { name: "outages", step: FEW_ROWS, of: found.snapshot },
          ),
        ),
      ),
      card(
        "Rejected records",
        table(["time", "#offset", "key", "reason", "begins with"], rejected, "Every record kept the contract.", {
          name: "rejected",
          of: found.snapshot,
        }),
        found.rejectedMore && quiet("Older ones are in the table rejected."),
      ),
    ];
  },
};

function names(brokers, name) {
  const list = () => brokers.flatMap((each) => [name(each), h("br")]);
  const fill = (event) => {
    const all = event.currentTarget.lastElementChild;
    if (!all.firstChild) all.append(...list());
  };
  return brokers.length <= FEW
    ? h("div", {}, list())
    : h("details", { ontoggle: fill }, h("summary", {}, counted(brokers.length, "broker")), h("div"));
}
