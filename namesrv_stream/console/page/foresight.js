// What topics would lose if brokers were gone: of one choice of them, and of every zone, cluster or group alone.

import { card, h, link, quiet, verdictLine } from "./dom.js";
import { chooser, table } from "./lists.js";
import { counted, visible, when } from "./words.js";

const LOSES = { route: "its route", writes: "writes", group: "a broker group" };
const BECOMES = { gone: "no broker left", no_master: "no master", reduced: "a broker less", read_only: "read-only" };
const EACH = { zone: "Zones", cluster: "Clusters", group: "Broker groups", broker: "Brokers" };

const pathOf = ({ name, filters: { zone, cluster } }) => {
  const query = new URLSearchParams();
  if (name) query.set("broker", name);
  if (zone !== undefined) query.set("zone", zone);
  if (cluster !== undefined) query.set("cluster", cluster);
  return `v1/impact?${query}`;
};

const subjectOf = ({ name, filters: { zone, cluster } }) =>
  name || cluster || (zone === undefined ? "" : zone === "" ? "no zone" : /^zone/i.test(zone) ? zone : `zone ${zone}`);

export const impactLink = (name, moment, filters = {}) =>
  link("impact", name, moment, `What if ${subjectOf({ name, filters })} is gone?`, filters);

export const impact = {
  title: (state) => `If ${subjectOf(state)} was gone`,
  ask: (state) => [pathOf(state)],
  show: ([found], moment) => [
    verdictLine(found.text, found.safe ? "" : "down"),
    quiet(
      `${counted(found.brokers, "broker")} would be gone`,
      found.alreadyDown ? `, ${found.alreadyDown.toLocaleString()} down already` : "",
      `. ${found.notKnown}`,
    ),
    found.total > 0 && card("topics", `${counted(found.total, "topic")} would lose something`, topicsOf(found, moment)),
    found.groups.length > 0 && card("groups", counted(found.groups.length, "broker group"), groupsOf(found, moment)),
    found.orders.length + found.staticTopics.length > 0 &&
      card(
        "orders",
        "Named by configurations",
        found.orders.map((each) => named(each, `order configuration ${each.value} names`, moment)),
        found.staticTopics.map((each) => named(each, "static topic with queues on", moment)),
      ),
  ],
};

const named = (each, words, moment) =>
  h("p", {}, link("topic", each.topic, moment), `: ${words} ${each.brokerNames.map(visible).join(", ")}`);

function topicsOf({ topics, total, snapshot }, moment) {
  const row = (each) => [
    link("topic", each.topic, moment),
    LOSES[each.loses],
    `${each.writeQueuesBefore} → ${each.writeQueuesAfter}`,
    `${each.readQueuesBefore} → ${each.readQueuesAfter}`,
    each.remaining.map(visible).join(", ") || "none",
    each.downAlready
      .map((group) => `${visible(group.brokerName)} ${group.since ? `since ${when(group.since)}` : "(no master)"}`)
      .join(", "),
  ];
  const columns = ["topic", "loses", "#write queues", "#read queues", "remaining groups", "down already"];
  const rows = topics.map((each) => Object.assign(row(each), { item: each }));
  return table(columns, rows, "", { name: "impact", total, of: { snapshot } });
}

function groupsOf({ groups, snapshot }, moment) {
  const becomes = (each) => `${BECOMES[each.becomes]}${each.actingMaster ? ", a slave acts as master" : ""}`;
  const row = (each) => [link("broker", each.brokerName, moment), becomes(each), each.topics];
  const rows = groups.map((each) => Object.assign(row(each), { item: each }));
  return table(["broker group", "then", "#topics"], rows, "", { name: "impact-groups", of: { snapshot } });
}

export const resilience = {
  title: () => "Resilience",
  ask: ({ filters }) => [`v1/resilience?each=${EACH[filters.each] ? filters.each : "zone"}&limit=1000`],
  show: ([found], moment, { state, go }) => [
    verdictLine(found.text, found.safe ? "" : "degraded"),
    card(
      "each",
      "What each alone would take",
      h(
        "p",
        { class: "buttons" },
        Object.entries(EACH).map(([kind, text]) =>
          h(
            "button",
            {
              type: "button",
              "aria-pressed": String(kind === (EACH[state.filters.each] ? state.filters.each : "zone")),
              onclick: () => chooser(state.filters, go)("each")(kind),
            },
            text,
          ),
        ),
      ),
      eachOf(found, moment),
    ),
    h(
      "div",
      { class: "columns" },
      card("by-groups", "Topics by broker groups", spread(found.topicsByGroups, "broker group", moment)),
      card("by-zones", "Topics by zones of their masters", spread(found.topicsByZones, "zone", moment)),
    ),
  ],
};

// A subject of the answer, as the address of its own view has it.
function subjectLink(each, moment) {
  if (each.kind === "cluster") return link("impact", "", moment, visible(each.subject), { cluster: each.subject });
  if (each.kind !== "zone") return link("impact", each.subject, moment);
  return link("impact", "", moment, visible(each.subject), { zone: each.name });
}

function eachOf({ subjects, total, snapshot }, moment) {
  const row = (each) => [
    subjectLink(each, moment),
    each.brokers,
    each.loseRoute,
    each.loseWrites,
    each.loseGroup,
    each.groupsWithoutMaster,
    each.worst.map(visible).join(", "),
  ];
  const columns = [
    "without",
    "#brokers",
    "#topics lose route",
    "#topics lose writes",
    "#degraded",
    "#groups without a master",
    "first topics",
  ];
  const rows = subjects.map((each) => Object.assign(row(each), { item: each }));
  return table(columns, rows, "No brokers are up.", { name: "resilience", total, of: { snapshot } });
}

function spread(found, noun, moment) {
  const row = (each) => [
    counted(each.count, noun),
    each.topics,
    h(
      "span",
      {},
      each.first.map((topic, index) => [index ? ", " : "", link("topic", topic, moment)]),
      each.topics > each.first.length ? ` and ${(each.topics - each.first.length).toLocaleString()} more` : "",
    ),
  ];
  const rows = found.map((each) => Object.assign(row(each), { item: each }));
  return table(["writable on", "#topics", "which"], rows, "No topics.", { name: `topics-by-${noun}` });
}
