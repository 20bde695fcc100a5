// The list of topics, and the route of one.

import { card, dot, h, link } from "./dom.js";
import { pages, story, table, wantedOf } from "./lists.js";
import { counted, perm, visible } from "./words.js";

const path = encodeURIComponent;

function listPath({ name, filters }) {
  return `v1/topics?q=${path(name)}&system=${filters.system === "1"}`;
}

export const topicList = {
  title: () => "Topics",
  ask: (state) => [`${listPath(state)}&limit=${wantedOf("topics")}`],
  show: ([found], moment, { state, go }) => {
    const row = (each) => [link("topic", each.topic, moment), each.readQueueNums, each.writeQueueNums, each.brokerNamesUp === each.brokerNames ? each.brokerNames : `${each.brokerNamesUp} of ${each.brokerNames}`, each.state.replace("_", " ")];
    const isShown = state.filters.system === "1";
    const onChange = (event) => go({ filters: { ...state.filters, system: event.target.checked ? "1" : undefined } }, true);
    const onSubmit = (event) => { event.preventDefault(); go({ name: new FormData(event.target).get("q").trim() }, true); };
    return [card(counted(found.total, "topic"),
      h("form", { class: "filters", onsubmit: onSubmit },
        h("input", { name: "q", type: "search", placeholder: "name", "aria-label": "Name contains", value: state.name }), h("button", {}, "Filter"),
        h("label", {}, h("input", { type: "checkbox", name: "system", checked: isShown, onchange: onChange }), ` with system topics${found.hidden ? ` (${found.hidden.toLocaleString()})` : ""}`)),
      pages(["topic", "#read", "#write", "#broker names", "state"], found, { path: listPath(state), epoch: state.at ?? state.epoch ?? state.newest, key: "topics", row, name: "topics", empty: "No such topic at this moment." }))];
  },
};

export const topic = {
  title: ({ name }) => name,
  ask: ({ name }) => [`v1/topics/${path(name)}`, `v1/why/${path(name)}?topic=true&limit=100`],
  show: ([found, why], moment, { actions }) => [
    found && h("p", { class: "verdict" }, h("strong", {}, found.text)),
    card("Route, as clients get it", routeTable(found, moment), found?.route && routeText(found.route)),
    card("Why it is so", story([...(why?.sentences ?? [])].reverse(), "The history has nothing about this topic up to this moment.")),
    moment.epoch === null && found && card("Change", actions([["Delete from the routes …", { type: "DELETE_TOPIC_IN_NAMESRV", topic: found.topic }, `Remove ${found.topic} from the routes. A broker that still has it adds it again with its next registration.`]])),
  ],
};

function routeTable(found, moment) {
  const groups = new Map((found?.route?.brokerDatas ?? []).map((group) => [group.brokerName, group]));
  const states = new Map((found?.brokers ?? []).map((lease) => [lease.brokerAddr, lease.state]));
  const queues = [...(found?.route?.queueDatas ?? [])].sort((one, other) => one.brokerName.localeCompare(other.brokerName, undefined, { numeric: true }));
  const rows = queues.map((queue) => {
    const group = groups.get(queue.brokerName);
    const holders = Object.entries(group?.brokerAddrs ?? {}).map(([id, addr]) => h("div", { class: "holder" }, dot(states.get(addr) ?? "gone"), h("b", {}, id), ` ${addr} `));
    return [link("broker", queue.brokerName, moment), visible(group?.cluster ?? ""), group?.zoneName, queue.readQueueNums, queue.writeQueueNums, perm(queue.perm), holders];
  });
  return table(["broker", "cluster", "zone", "#read", "#write", "perm", "addresses"], rows, "At this moment clients get no route: TOPIC_NOT_EXIST.", { name: `route-of-${found?.topic}` });
}

function routeText(route) {
  const fill = (event) => { event.currentTarget.querySelector("pre").textContent = JSON.stringify(route, null, 2); };
  return h("details", { ontoggle: fill }, h("summary", {}, "TopicRouteData"), h("pre", { tabindex: 0 }));
}
