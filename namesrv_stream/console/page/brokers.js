// The list of brokers, chosen and sorted as the address of the page says, and one broker.

import { sessionsChart } from "./chart.js";
import { card, dot, h, link, topicState, verdictLine } from "./dom.js";
import { chooser, filterForm, listPath, pages, sortHeads, stamp, story, wantedOf, wantedOfStory } from "./lists.js";
import { counted, duration, percent, perm, visible } from "./words.js";

const path = encodeURIComponent;
const STATES = { alive: "alive", late: "late", suspect: "suspect", down: "down", left: "unregistered" };
const SORTS = {
  broker: "name",
  address: "address",
  cluster: "cluster",
  zone: "zone",
  state: "state",
  heard: "silent",
  "alive since": "since",
  topics: "topics",
};

export const brokerList = {
  title: () => "Brokers",
  ask: (state) => [`${listPath("brokers", state)}&limit=${wantedOf("brokers")}`, "v1/overview"],
  show: ([found, all], moment, { state, go }) => [
    card(
      counted(found?.total ?? 0, "address", "addresses"),
      filterForm(all, state, go, STATES, "Name or address"),
      brokerTable(found, moment, state, go),
    ),
  ],
};

function brokerTable(found, moment, { filters, at: time, epoch, newest }, go) {
  const sort = filters.sort ?? "name";
  const columns = ["broker", "#id", "address", "cluster", "zone", "state", "heard", "alive since", "#topics"];
  const heads = sortHeads(columns, SORTS, sort, chooser(filters, go)("sort"));
  const row = (each) => [
    link("broker", each.brokerName, moment),
    ownId(each),
    each.down ? h("s", {}, each.brokerAddr) : each.brokerAddr,
    visible(each.clusterName),
    each.zoneName,
    h("span", { class: "holder" }, dot(each.state), each.state),
    ...heard(each),
    each.topics,
  ];
  return pages(columns, found, {
    path: listPath("brokers", { filters }),
    epoch: time ?? epoch ?? newest,
    key: "brokers",
    row,
    heads,
    name: "brokers",
    empty: "No such broker at this moment.",
  });
}

const ownId = (each) => (each.holdsId || each.down ? each.brokerId : `(${each.brokerId})`);

// When a broker was heard last, and since when it is alive or out of the routes.
const heard = (each) =>
  each.down
    ? [stamp(each.down.lastHeardAt), h("span", {}, "out since ", stamp(each.down.goneAt), ` (${each.down.endedBy})`)]
    : [Number.isFinite(each.silentMillis) ? `${duration(each.silentMillis)} before` : "", stamp(each.leaseBeganAt)];

export const broker = {
  title: ({ name }) => name,
  ask: ({ name }) => [
    `v1/brokers/${path(name)}?limit=${wantedOf(`topics-of-${name}`)}`,
    `v1/churn?since=7d&broker=${path(name)}`,
    `v1/why/${path(name)}?limit=${wantedOfStory()}`,
  ],
  show: ([found, churned, why], moment, { state, go, actions }) => [
    found && verdictLine(found.text, found.brokers.some((each) => each.state === "down") ? "down" : ""),
    card("Addresses", addresses(found ?? {})),
    card(
      "The week before this moment",
      churned ? sessionsChart(churned, (text) => text) : null,
      Object.entries(churned?.availability ?? {}).map(([each, share]) =>
        h("p", { class: "share" }, `${each}: in the routes ${percent(share)} of the time in which it was expected`),
      ),
    ),
    h(
      "div",
      { class: "columns" },
      card(
        "Why it is so",
        story(
          [...(why?.sentences ?? [])].reverse(),
          "The history has nothing about this broker up to this moment.",
          why?.total,
          () => go({}),
        ),
      ),
      card(found ? counted(found.total, "topic") : "Topics", found && topicsOf(found, moment, state)),
    ),
    moment.epoch === null &&
      found &&
      card(
        "Change",
        actions([...changes(found), ...found.brokers.filter((each) => each.state === "down").map(retirement)]),
      ),
  ],
};

function addresses({ brokers: leases = [], snapshot } = {}) {
  const row = (lease) => [
    h("span", { class: "holder" }, dot(lease.state), lease.down ? h("s", {}, lease.brokerAddr) : lease.brokerAddr),
    ownId(lease),
    lease.state,
    visible(lease.clusterName),
    lease.zoneName,
    ...heard(lease),
    lease.heartbeatTimeoutMillis ? duration(lease.heartbeatTimeoutMillis) : "",
    lease.brokerVersion,
  ];
  return pages(
    ["address", "#id", "state", "cluster", "zone", "heard", "alive since", "lease", "release"],
    { leases, total: leases.length, next: null, snapshot },
    {
      key: "leases",
      row,
      name: "addresses",
      path: "",
      empty: "At this moment no address of this broker is alive, and none is expected.",
    },
  );
}

function topicsOf(found, moment, { at: time, epoch, newest }) {
  const row = (each) => [
    link("topic", each.topic, moment),
    topicState(each),
    each.readQueueNums,
    each.writeQueueNums,
    perm(each.perm),
  ];
  return pages(["topic", "state", "#read", "#write", "perm"], found, {
    path: `v1/brokers/${path(found.brokerName)}`,
    epoch: time ?? epoch ?? newest,
    key: "topics",
    row,
    name: `topics-of-${found.brokerName}`,
    empty: "No topic.",
  });
}

const retirement = (each) => [
  `Retire ${each.brokerName} ${each.brokerId} …`,
  { type: "RETIRE_BROKER", clusterName: each.clusterName, brokerName: each.brokerName, brokerId: each.brokerId },
  `${each.brokerName} ${each.brokerId} of ${visible(each.clusterName)} counts as gone for good: it is not expected until it is back. Its figures up to now stay as they are.`,
];

function changes({ brokerName: name, brokers, total, writeQueueNums }) {
  if (brokers.every((each) => each.down)) return [];
  const up = brokers.filter((each) => !each.down),
    clusters = [...new Set(up.map((each) => each.clusterName))].join(", ");
  const what = `${counted(total, "topic")} with ${counted(writeQueueNums, "write queue")} on ${name} (${counted(up.length, "broker")} of ${clusters})`;
  return [
    [
      "Make read-only …",
      { type: "WIPE_WRITE_PERM_OF_BROKER", brokerName: name },
      `${what}: clients stop sending there, until it registers with a new data version.`,
    ],
    [
      "Make writable …",
      { type: "ADD_WRITE_PERM_OF_BROKER", brokerName: name },
      `${what}: all become readable and writable, also those that were not before.`,
    ],
  ];
}
