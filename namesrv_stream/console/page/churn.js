// Sessions of brokers over the length of the track, who flapped, what ended together, rejected records.

import { sessionsChart } from "./chart.js";
import { card, h, link, quiet } from "./dom.js";
import { rowsOf, stamp, table } from "./lists.js";
import { brokerText, clock, counted, duration } from "./words.js";

const FEW = 6;
const FEW_ROWS = 20;

export const churn = {
  title: () => "Churn",
  ask: ({ window: span }) => [`v1/churn?since=${span === "all" ? "30d" : span}`],
  show: ([found], moment) => {
    const name = (each) => link("broker", each.brokerName, moment, `${brokerText(each)} in ${each.clusterName}`);
    const flapping = rowsOf(found.flapping, (each) => [
      name(each),
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
      names(each.members, name),
    ]);
    const rejected = rowsOf(found.rejected, (each) => [
      stamp(each.eventTime),
      each.offset,
      each.key,
      each.reason,
      h("code", {}, each.text),
    ]);
    return [
      card("sessions", "Sessions", sessionsChart(found, name)),
      h(
        "div",
        { class: "columns" },
        card(
          "flapping",
          "Flapping",
          table(
            ["broker", "#unplanned ends", "#back within 10 min", "shortest session"],
            flapping,
            "No unplanned ends in this time.",
            { name: "flapping", step: FEW_ROWS, of: found.snapshot },
          ),
        ),
        card(
          "outages",
          "Shared outages",
          table(
            ["first end", "last end", "#brokers", "clusters", "brokers"],
            outages,
            "No two unplanned ends within a minute.",
            { name: "outages", step: FEW_ROWS, of: found.snapshot },
          ),
        ),
      ),
      card(
        "rejected",
        "Rejected records",
        table(["time", "#offset", "key", "reason", "begins with"], rejected, "No records were rejected.", {
          name: "rejected",
          of: found.snapshot,
        }),
        found.rejectedMore && quiet("The table `rejected` has older ones."),
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
