// A moment at a glance: what is wrong, then clusters and zones, then what happened last.

import { card, dot, h, link, quiet } from "./dom.js";
import { story, table } from "./lists.js";
import { clock, counted, duration, visible, when } from "./words.js";

const MOST_TROUBLES = 12;

export function overview(found, moment, actions) {
  const { counts } = found;
  const figures = ["alive", "late", "suspect", "down"].filter((state) => state !== "suspect" || counts.suspect).map((state) => [state, counts[state], link("brokers", "", moment, counts[state].toLocaleString(), { state })]);
  figures.push(["broker names", counts.brokerNames, link("brokers", "", moment, counts.brokerNames.toLocaleString())], ["clusters", counts.clusters, counts.clusters.toLocaleString()], ["topics", counts.topics, link("topics", "", moment, counts.topics.toLocaleString())]);
  return [
    h("dl", { class: "figures" }, figures.map(([name, count, shown]) => h("div", { class: count && ["late", "suspect", "down"].includes(name) ? name : null }, h("dt", {}, name), h("dd", {}, shown)))),
    counts.suspect > 0 && held(counts.suspect, moment, actions),
    found.verdict.level !== "ok" && troubles(found.verdict, moment),
    h("div", { class: "columns" },
      h("div", {}, members(found, moment)),
      card("What happened last", lastHour(found.lastHour), story(found.events, "Nothing has happened up to this moment."))),
  ];
}

function held(count, moment, actions) {
  return card("Held by the guard against mass expiry", h("p", {}, `The leases of ${counted(count, "broker")} are over. Clients still get them, until they are heard again or expiryGuardMaxMillis has passed.`),
    moment.epoch === null && actions([["Lift the guard …", { type: "LIFT_EXPIRY_GUARD" }, `The ${counted(count, "suspect broker")} leave the routes at once.`]]));
}

function troubles({ text, level, causes }, moment) {
  const list = (some) => h("ul", { class: "troubles" }, some.map((each) => trouble(each, moment)));
  const rest = causes.slice(MOST_TROUBLES);
  return card("What is wrong", h("p", { class: level }, h("strong", {}, text)), list(causes.slice(0, MOST_TROUBLES)), rest.length > 0 && h("details", {}, h("summary", {}, `${rest.length} more`), list(rest)));
}

// One line for what is the same for many brokers.
function trouble(each, moment) {
  const filters = { state: each.state, ...(each.clusters.length === 1 && { cluster: each.clusters[0] }), ...(each.zones.length === 1 && { zone: each.zones[0] ?? "" }) };
  const one = (broker) => h("li", {}, link("broker", broker.brokerName, moment, `${broker.brokerName} ${broker.brokerId}`), " ", h("small", {}, broker.brokerAddr));
  const rest = each.count - each.brokers.length;
  return h("li", { class: each.state }, dot(each.state),
    h("div", {}, h("p", {}, h("strong", {}, each.text), " ", h("time", { datetime: each.firstAt }, when(each.firstAt))),
      h("ul", { class: "names" }, each.brokers.map(one), h("li", {}, link("brokers", "", moment, rest > 0 ? `and ${rest.toLocaleString()} more` : "list", filters)))));
}

function members(found, moment) {
  if (!found.groups.length) return card("Clusters", quiet("No broker is registered at this moment. Point a broker's namesrvAddr at a gateway, or start `namesrv-stream fleet`."));
  if (!found.clusters.length) return clusterCounts(found.groups, moment);
  return found.clusters.map((cluster) => card(visible(cluster.name), h("div", { class: "groups" }, cluster.brokers.map((group) => groupCard(group, moment)))));
}

function groupCard(group, moment) {
  const silent = (each) => (each.state === "alive" ? "" : [each.state === "suspect" && "suspect", each.silentMillis !== null && `silent ${duration(each.silentMillis)}`].filter(Boolean).join(", "));
  const holder = (each) => h("li", {}, dot(each.state), h("b", {}, each.brokerId), h("span", { class: "address" }, each.brokerAddr), h("small", {}, silent(each)));
  const ghost = (each) => h("li", { class: "ghost" }, dot("down"), h("b", {}, each.brokerId), h("span", { class: "address" }, each.brokerAddr), h("small", {}, `${each.down.endedBy.toLowerCase()} ${clock(each.down.goneAt)}`));
  return h("article", { class: "group" },
    h("h3", {}, link("broker", group.brokerName, moment)),
    quiet([group.zoneName, counted(group.topics, "topic")].filter(Boolean).join(" · ")),
    h("ul", {}, group.holders.map((each) => (each.down ? ghost(each) : holder(each)))));
}

// Of very many brokers: each cluster as numbers, which opens into its zones.
function clusterCounts(groups, moment) {
  const byCluster = new Map();
  for (const each of groups) byCluster.set(each.clusterName, [...(byCluster.get(each.clusterName) ?? []), each]);
  const sum = (of, key) => of.reduce((total, each) => total + each[key], 0);
  const states = (of) => ["alive", "late", "suspect", "down"].filter((state) => sum(of, state)).map((state) => [dot(state), `${sum(of, state).toLocaleString()} ${state} `]);
  const number = (each, state) => (each[state] ? link("brokers", "", moment, each[state].toLocaleString(), { cluster: each.clusterName, zone: each.zoneName ?? "", state }) : "0");
  const zoneRow = (each) => [link("brokers", "", moment, each.zoneName ?? "no zone", { cluster: each.clusterName, zone: each.zoneName ?? "" }), each.brokerNames, ...["alive", "late", "suspect", "down"].map((state) => number(each, state)), bar([each])];
  const bar = (of) => {
    const all = Math.max(1, ["alive", "late", "suspect", "down"].reduce((total, state) => total + sum(of, state), 0));
    let x = 0;
    return h("svg", { class: "bar-of", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, ["alive", "late", "suspect", "down"].map((state) => {
      const width = (100 * sum(of, state)) / all;
      x += width;
      return h("rect", { class: state, x: x - width, y: 0, width, height: 8 });
    }));
  };
  return [...byCluster].map(([cluster, of]) => h("details", { class: "card cluster", open: byCluster.size <= 8 },
    h("summary", {}, h("h2", {}, visible(cluster)), h("span", {}, `${counted(sum(of, "brokerNames"), "broker name")}: `, states(of)), bar(of)),
    table(["zone", "#broker names", "#alive", "#late", "#suspect", "#down", ""], of.map(zoneRow), "", { name: cluster })));
}

function lastHour(counts) {
  const told = Object.entries(counts).map(([kind, count]) => `${count.toLocaleString()} ${kind.toLowerCase().replaceAll("_", " ")}`);
  return quiet(told.length ? `In the last hour: ${told.join(", ")}.` : "Nothing in the last hour.");
}
