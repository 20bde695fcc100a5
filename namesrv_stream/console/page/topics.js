// The list of topics, and the route of one.

import { card, dot, h, kindOf, link, TOPIC_STATES, topicState, verdictLine } from "./dom.js";
import {
  chooser,
  filterForm,
  listPath,
  pages,
  rowsOf,
  sortHeads,
  story,
  table,
  wantedOf,
  wantedOfStory,
} from "./lists.js";
import { outward } from "./outward.js";
import { counted, perm, role, visible } from "./words.js";

const path = encodeURIComponent;

const SORTS = {
  topic: "name",
  state: "state",
  "read queues": "read",
  "write queues": "write",
  "groups with a master": "brokerNamesUp",
};

const topicsPath = (state) => listPath("topics", state, { system: state.filters.system === "1" });

export const topicList = {
  title: () => "Topics",
  ask: (state) => [`${topicsPath(state)}&limit=${wantedOf("topics")}`, "v1/overview"],
  show: ([found, all], moment, { state, go }) => {
    const { filters } = state,
      choose = chooser(filters, go);
    const row = (each) => [
      link("topic", each.topic, moment),
      topicState(each),
      each.readQueueNums,
      each.writeQueueNums,
      `${each.brokerNamesUp} of ${each.brokerNames}`,
    ];
    const columns = ["topic", "state", "#read queues", "#write queues", "#groups with a master"];
    return [
      card(
        "topics",
        counted(found.total, "topic"),
        filterForm(all, state, go, TOPIC_STATES, "Name", systemSwitch(filters.system === "1", found, choose("system"))),
        pages(columns, found, {
          path: topicsPath(state),
          epoch: state.at ?? state.epoch,
          key: "topics",
          row,
          heads: sortHeads(columns, SORTS, filters.sort ?? "name", choose("sort")),
          name: "topics",
          empty: "No topics match at this time.",
        }),
      ),
    ];
  },
};

function systemSwitch(isOn, { hidden }, choose) {
  return h(
    "label",
    {},
    h("input", {
      type: "checkbox",
      name: "system",
      checked: isOn,
      onchange: (event) => choose(event.target.checked ? "1" : "*"),
    }),
    ` with system topics${hidden ? ` (${hidden.toLocaleString()})` : ""}`,
  );
}

export const topic = {
  title: ({ name }) => name,
  ask: ({ name }) => [`v1/topics/${path(name)}`, `v1/why/${path(name)}?topic=true&limit=${wantedOfStory()}`],
  show: ([found, why], moment, { go, actions }) => [
    found && verdictLine(found.text, kindOf(found.state)),
    card(
      "route",
      "Route, as clients get it",
      routeTable(found, moment),
      found?.missing.length > 0 && missing(found.missing, moment),
      found?.route && routeText(found.route),
      found && outward("topic", { topic: found.topic }),
    ),
    card(
      "why",
      "History",
      story([...(why?.sentences ?? [])].reverse(), "No events about this topic up to this time.", why?.total, () =>
        go({}),
      ),
    ),
    moment.epoch === null &&
      found?.route &&
      card(
        "change",
        "Change",
        actions([
          [
            "Delete from routes …",
            { type: "DELETE_TOPIC_IN_NAMESRV", topic: found.topic },
            deletion(found),
            found.topic,
          ],
        ]),
      ),
  ],
};

function deletion({ topic: name, route }) {
  const sum = (kind) => route.queueDatas.reduce((count, queue) => count + queue[kind], 0).toLocaleString();
  const clusters = [...new Set(route.brokerDatas.map((each) => each.cluster))].join(", ");
  return `Removes ${name} from the routes: ${sum("readQueueNums")} read queues and ${sum("writeQueueNums")} write queues on ${counted(route.queueDatas.length, "broker group")} in ${clusters}. A broker that still has the topic adds it again with its next registration.`;
}

// Broker groups to which producers cannot send for the topic.
function missing(names, moment) {
  return h(
    "p",
    { class: "missing" },
    "Not writable on: ",
    names.map((each, index) => [
      index ? ", " : "",
      each.why === "down"
        ? h("s", {}, link("broker", each.brokerName, moment))
        : link("broker", each.brokerName, moment),
      WHY[each.why],
    ]),
  );
}

const WHY = {
  down: " (down)",
  "no master": " (no master)",
  "no write permission": " (no write permission)",
};

function routeTable(found, moment) {
  const groups = new Map((found?.route?.brokerDatas ?? []).map((group) => [group.brokerName, group]));
  const states = new Map((found?.brokers ?? []).map((lease) => [lease.brokerAddr, lease.state]));
  const queues = [...(found?.route?.queueDatas ?? [])].sort((one, other) =>
    one.brokerName.localeCompare(other.brokerName, undefined, { numeric: true }),
  );
  const items = queues.map((queue) => ({
    ...queue,
    ...Object.fromEntries(Object.entries(groups.get(queue.brokerName) ?? {}).filter(([key]) => key !== "brokerName")),
  }));
  const rows = rowsOf(items, (queue) => {
    const group = groups.get(queue.brokerName);
    const holders = Object.entries(group?.brokerAddrs ?? {}).map(([id, addr]) =>
      h("div", { class: "holder" }, dot(states.get(addr) ?? "down"), h("b", {}, role(id)), ` ${addr} `),
    );
    return [
      link("broker", queue.brokerName, moment),
      visible(group?.cluster ?? ""),
      group?.zoneName,
      queue.readQueueNums,
      queue.writeQueueNums,
      perm(queue.perm),
      holders,
    ];
  });
  return table(
    ["broker group", "cluster", "zone", "#read queues", "#write queues", "permission", "brokers"],
    rows,
    "Clients get no route at this time (TOPIC_NOT_EXIST).",
    { name: `route-of-${found?.topic}`, of: found?.snapshot },
  );
}

function routeText(route) {
  const fill = (event) => {
    event.currentTarget.querySelector("pre").textContent = JSON.stringify(route, null, 2);
  };
  return h("details", { ontoggle: fill }, h("summary", {}, "TopicRouteData"), h("pre", { tabindex: 0 }));
}
