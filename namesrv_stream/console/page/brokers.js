// The list of brokers, chosen and sorted as the address of the page says, and one broker.

import { sessionsChart } from "./chart.js";
import { absenceOf, endOf } from "./command.js";
import { addressText, card, dot, h, link, topicState, verdictLine } from "./dom.js";
import { impactLink } from "./foresight.js";
import { chooser, filterForm, listPath, pages, sortHeads, stamp, story, wantedOf, wantedOfStory } from "./lists.js";
import { outward } from "./outward.js";
import { brokerText, counted, duration, endText, percent, perm, role, STATES, visible } from "./words.js";

const path = encodeURIComponent;
const SORTS = {
  broker: "name",
  address: "address",
  cluster: "cluster",
  zone: "zone",
  state: "state",
  "last heartbeat": "silent",
  "up since": "since",
  topics: "topics",
};

export const brokerList = {
  title: () => "Brokers",
  ask: (state) => [`${listPath("brokers", state)}&limit=${wantedOf("brokers")}`, "v1/overview"],
  show: ([found, all], moment, { state, go }) => [
    card(
      "brokers",
      counted(found?.total ?? 0, "broker"),
      filterForm(all, state, go, STATES, "Name or address"),
      placeLinks(state, moment),
      brokerTable(found, moment, state, go),
    ),
  ],
};

// What if the place that is chosen was gone.
function placeLinks({ filters: { cluster, zone } }, moment) {
  const chosen = [
    cluster !== undefined && impactLink("", moment, { cluster }),
    zone !== undefined && impactLink("", moment, { zone }),
  ];
  return (
    chosen.some(Boolean) &&
    h(
      "p",
      {},
      chosen.filter(Boolean).flatMap((each) => [each, " "]),
    )
  );
}

function brokerTable(found, moment, { filters, at: time, epoch }, go) {
  const sort = filters.sort ?? "name";
  const columns = ["broker", "role", "address", "cluster", "zone", "state", "last heartbeat", "up since", "#topics"];
  const heads = sortHeads(columns, SORTS, sort, chooser(filters, go)("sort"));
  const row = (each) => [
    link("broker", each.brokerName, moment),
    ownRole(each),
    addressText(each.brokerAddr, each.down ? "s" : "span"),
    visible(each.clusterName),
    each.zoneName,
    h("span", { class: "holder" }, dot(each.state), STATES[each.state]),
    ...heard(each),
    each.topics,
  ];
  return pages(columns, found, {
    path: listPath("brokers", { filters }),
    epoch: time ?? epoch,
    key: "brokers",
    row,
    heads,
    name: "brokers",
    empty: "No brokers match at this time.",
  });
}

// A role in parentheses is that of another address, or of none.
const ownRole = (each) => (each.holdsId || each.down ? role(each.brokerId) : `(${role(each.brokerId)})`);

// The last heartbeat of a broker, and since when it is up or was removed from routes.
const heard = (each) =>
  each.down
    ? [stamp(each.down.lastHeardAt), h("span", {}, `${endText(each.down.endedBy)} at `, stamp(each.down.goneAt))]
    : [stamp(each.lastUpdateTimestamp), stamp(each.leaseBeganAt)];

export const broker = {
  title: ({ name }) => name,
  ask: ({ name }) => [
    `v1/brokers/${path(name)}?limit=${wantedOf(`topics-of-${name}`)}`,
    `v1/churn?since=7d&broker=${path(name)}`,
    `v1/why/${path(name)}?limit=${wantedOfStory()}`,
  ],
  show: ([found, churned, why], moment, { state, go, actions }) => [
    found && verdictLine(found.text, found.brokers.some((each) => each.state === "down") ? "down" : ""),
    card(
      "members",
      "Brokers of this group",
      addresses(found ?? {}),
      h("p", {}, found && impactLink(state.name, moment)),
      outwardOf(found?.brokers[0]),
    ),
    card(
      "sessions",
      "Last 7 days",
      churned ? sessionsChart(churned, (session) => brokerText(session)) : null,
      membersOf(churned).map(([each, share]) =>
        h(
          "p",
          { class: "share" },
          `${brokerText(each)} in ${each.clusterName}: up ${percent(share)} of the expected time`,
        ),
      ),
    ),
    h(
      "div",
      { class: "columns" },
      card(
        "why",
        "History",
        story([...(why?.sentences ?? [])].reverse(), "No events about this broker up to this time.", why?.total, () =>
          go({}),
        ),
      ),
      card("topics", found ? counted(found.total, "topic") : "Topics", found && topicsOf(found, moment, state)),
    ),
    moment.epoch === null &&
      found &&
      card(
        "change",
        "Change",
        actions([
          ...changes(found),
          ...found.brokers.filter((each) => each.state === "down").map(retirement),
          ...plans(found),
        ]),
      ),
  ],
};

// Each broker of the sessions, with its share of the expected time.
function membersOf(churned) {
  const members = new Map((churned?.sessions ?? []).map((each) => [each.broker, each]));
  return Object.entries(churned?.availability ?? {})
    .filter(([broker]) => members.has(broker))
    .map(([broker, share]) => [members.get(broker), share]);
}

const outwardOf = (each) =>
  each &&
  outward("broker", {
    broker: each.brokerName,
    brokerId: each.brokerId,
    address: each.brokerAddr,
    cluster: each.clusterName,
    zone: each.zoneName,
  });

function addresses({ brokers: leases = [], snapshot } = {}) {
  const row = (lease) => [
    h("span", { class: "holder" }, dot(lease.state), addressText(lease.brokerAddr, lease.down ? "s" : "span")),
    ownRole(lease),
    STATES[lease.state],
    visible(lease.clusterName),
    lease.zoneName,
    ...heard(lease),
    lease.heartbeatTimeoutMillis ? duration(lease.heartbeatTimeoutMillis) : "",
    lease.brokerVersion,
  ];
  return pages(
    ["address", "role", "state", "cluster", "zone", "last heartbeat", "up since", "timeout", "release"],
    { leases, total: leases.length, next: null, snapshot },
    {
      key: "leases",
      row,
      name: "addresses",
      path: "",
      empty: "No broker of this group is up or expected at this time.",
    },
  );
}

function topicsOf(found, moment, { at: time, epoch }) {
  const row = (each) => [
    link("topic", each.topic, moment),
    topicState(each),
    each.readQueueNums,
    each.writeQueueNums,
    perm(each.perm),
  ];
  return pages(["topic", "state", "#read queues", "#write queues", "permission"], found, {
    path: `v1/brokers/${path(found.brokerName)}`,
    epoch: time ?? epoch,
    key: "topics",
    row,
    name: `topics-of-${found.brokerName}`,
    empty: "No topics.",
  });
}

// A planned absence of the group, or the end of the one in which it is.
function plans({ brokerName: name, brokers }) {
  const held = brokers.find((each) => each.state === "planned")?.absence;
  const command = { type: "PUT_KV_CONFIG", namespace: "NAMESRV_STREAM_PLANNED" };
  const plan = [
    "Plan an absence …",
    command,
    `${visible(name)} may be away until then: its brokers are not told as down. One that is not back by then is.`,
    null,
    absenceOf(name),
  ];
  if (!held) return [plan];
  const effect = `${visible(held.name)}: what is not back is down.`;
  return [[`End the planned absence of ${visible(held.name)} …`, command, effect, null, endOf(held)]];
}

const retirement = (each) => [
  `Retire ${brokerText(each)} …`,
  { type: "RETIRE_BROKER", clusterName: each.clusterName, brokerName: each.brokerName, brokerId: each.brokerId },
  `${brokerText(each)} in ${visible(each.clusterName)} is gone for good: it is not expected until it registers again. Its figures up to now stay as they are.`,
];

function changes({ brokerName: name, brokers, total, writeQueueNums }) {
  if (brokers.every((each) => each.down)) return [];
  const up = brokers.filter((each) => !each.down),
    clusters = [...new Set(up.map((each) => each.clusterName))].join(", ");
  const what = `${counted(total, "topic")} with ${counted(writeQueueNums, "write queue")} on ${name} (${counted(up.length, "broker")} in ${clusters})`;
  return [
    [
      "Make read-only …",
      { type: "WIPE_WRITE_PERM_OF_BROKER", brokerName: name },
      `${what}: clients stop sending to it until it registers with a new data version.`,
    ],
    [
      "Make writable …",
      { type: "ADD_WRITE_PERM_OF_BROKER", brokerName: name },
      `${what}: all become readable and writable, also those that were not before.`,
    ],
  ];
}
