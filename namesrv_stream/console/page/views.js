// What each view shows of a moment. A view is a list of paths to ask and a function from their answers to elements.

import { card, h, link, table } from "./dom.js";
import { clock, counted, duration, percent, perm, visible, when } from "./words.js";
import { sessionsChart } from "./chart.js";

const path = encodeURIComponent;
const STATES = { alive: "alive", late: "late: silent for more than half its lease", suspect: "suspect: its lease is over, and the guard against mass expiry holds it", gone: "gone" };

const stamp = (at, text = when) => (at ? h("time", { datetime: at }, text(at)) : "");
const dot = (state) => h("i", { class: `dot ${state}`, title: STATES[state], role: "img", "aria-label": state });

function story(lines, empty) {
  if (!lines.length) return h("p", { class: "quiet" }, empty);
  return h("ol", { class: "story" }, lines.map((line) => h("li", { class: kindOf(line) }, h("time", { datetime: line.eventTime }, when(line.eventTime)), h("span", {}, line.text))));
}

function kindOf(line) {
  const text = `${line.type ?? ""} ${line.text}`;
  if (/expired|lost its last|unregistered in order|EXPIRED|CHANNEL_CLOSED|UNREGISTERED/.test(text)) return "left";
  if (/asked for/.test(text)) return "asked";
  return / registered as |alive already/.test(text) ? "came" : "other";
}

export const views = {
  overview: {
    title: () => "Overview",
    ask: () => ["/v1/overview"],
    show: ([found], moment, actions) => overview(found, moment, actions),
  },
  topics: {
    title: () => "Topics",
    ask: ({ name }) => [`/v1/topics?limit=500&q=${path(name)}`],
    show: ([found], moment) => [
      card(counted(found.total, "topic"), table(["topic", "#read", "#write", "brokers"],
        found.topics.map((row) => [link("topic", row.topic, moment), row.readQueueNums, row.writeQueueNums,
          row.brokers.flatMap((name, index) => [index ? ", " : "", link("broker", name, moment)])]),
        "No topic at this moment."), found.next && h("p", { class: "quiet" }, `The first ${found.topics.length} are shown: search for the others.`)),
    ],
  },
  topic: {
    title: ({ name }) => name,
    ask: ({ name }) => [`/v1/topics/${path(name)}`, `/v1/why/${path(name)}?topic=true&limit=100`],
    show: topic,
  },
  broker: {
    title: ({ name }) => name,
    ask: ({ name }) => [`/v1/brokers/${path(name)}`, `/v1/churn?since=7d&broker=${path(name)}`, `/v1/why/${path(name)}?limit=100`],
    show: broker,
  },
  churn: {
    title: () => "Churn",
    ask: ({ window: span }) => [`/v1/churn?since=${span}`],
    show: ([found], moment) => churn(found, moment),
  },
};

function held(count, moment, actions) {
  return card("Held by the guard against mass expiry", h("p", {}, `The leases of ${counted(count, "broker")} are over. Clients still get them, until they are heard again or expiryGuardMaxMillis has passed.`),
    moment.epoch === null && actions([["Lift the guard …", { type: "LIFT_EXPIRY_GUARD" }, `The ${counted(count, "suspect broker")} leave the routes at once.`]]));
}

function overview(found, moment, actions) {
  const { counts } = found;
  const figures = [["alive", counts.alive], ["late", counts.late], ...(counts.suspect ? [["suspect", counts.suspect]] : []), ["gone", found.gone.length], ["broker names", counts.brokerNames], ["clusters", counts.clusters], ["topics", counts.topics]];
  const goneOf = (name, cluster) => found.gone.filter((each) => each.brokerName === name && each.clusterName === cluster);
  const shown = new Set(found.clusters.flatMap((cluster) => cluster.brokers.map((group) => `${cluster.name}/${group.brokerName}`)));
  const lost = found.gone.filter((each) => !shown.has(`${each.clusterName}/${each.brokerName}`));
  return [
    h("dl", { class: "figures" }, figures.map(([name, count]) => h("div", { class: count && ["late", "suspect", "gone"].includes(name) ? name : null }, h("dt", {}, name), h("dd", {}, count.toLocaleString())))),
    counts.suspect > 0 && held(counts.suspect, moment, actions),
    h("div", { class: "columns" },
      h("div", {},
        found.clusters.map((cluster) => card(visible(cluster.name), h("div", { class: "groups" }, cluster.brokers.map((group) => groupCard(group, goneOf(group.brokerName, cluster.name), moment))))),
        !found.clusters.length && card("Clusters", h("p", { class: "quiet" }, "No broker is registered at this moment. Point a broker's namesrvAddr at a gateway, or start `namesrv-stream fleet`.")),
        lost.length > 0 && card("Gone in the last hour", table(["broker", "address", "how", "when"], lost.map((each) => [link("broker", each.brokerName ?? "", moment, `${each.brokerName} ${each.brokerId}`), each.brokerAddr, each.endedBy, stamp(each.goneAt)]), ""))),
      card("What happened last", lastHour(found.lastHour), story(found.events, "Nothing has happened up to this moment."))),
  ];
}

function lastHour(counts) {
  const told = Object.entries(counts).map(([kind, count]) => `${count.toLocaleString()} ${kind.toLowerCase().replaceAll("_", " ")}`);
  return h("p", { class: "quiet" }, told.length ? `In the last hour: ${told.join(", ")}.` : "Nothing in the last hour.");
}

function groupCard(group, gone, moment) {
  const holder = (each) => h("li", {}, dot(each.state), h("b", {}, each.brokerId), h("span", { class: "address" }, each.brokerAddr), each.silentMillis !== null && h("small", {}, each.state !== "alive" ? `${each.state === "suspect" ? "suspect, " : ""}silent ${duration(each.silentMillis)}` : ""));
  const ghost = (each) => h("li", { class: "ghost", title: each.text }, dot("gone"), h("b", {}, each.brokerId), h("span", { class: "address" }, each.brokerAddr), h("small", {}, `${each.endedBy.toLowerCase()} ${clock(each.goneAt)}`));
  return h("article", { class: "group" },
    h("h3", {}, link("broker", group.brokerName, moment)),
    h("p", { class: "quiet" }, [group.zoneName, counted(group.topics, "topic")].filter(Boolean).join(" · ")),
    h("ul", {}, group.holders.map(holder), gone.map(ghost)));
}

function topic([found, why], moment, actions) {
  const groups = new Map((found?.route.brokerDatas ?? []).map((group) => [group.brokerName, group]));
  const states = new Map((found?.brokers ?? []).map((lease) => [lease.brokerAddr, lease.state]));
  const rows = (found?.route.queueDatas ?? []).map((queue) => {
    const group = groups.get(queue.brokerName);
    const holders = Object.entries(group?.brokerAddrs ?? {}).map(([id, addr]) => h("div", { class: "holder" }, dot(states.get(addr) ?? "gone"), h("b", {}, id), " ", addr));
    return [link("broker", queue.brokerName, moment), group?.cluster, group?.zoneName, queue.readQueueNums, queue.writeQueueNums, perm(queue.perm), holders];
  });
  return [
    card("Route, as clients get it",
      table(["broker", "cluster", "zone", "#read", "#write", "perm", "addresses"], rows, "At this moment clients get no route: TOPIC_NOT_EXIST."),
      found && h("details", {}, h("summary", {}, "TopicRouteData"), h("pre", {}, JSON.stringify(found.route, null, 2)))),
    card("Why it is so", story([...(why?.sentences ?? [])].reverse(), "The history has nothing about this topic up to this moment.")),
    moment.epoch === null && found && card("Change", actions([["Delete from the routes …", { type: "DELETE_TOPIC_IN_NAMESRV", topic: found.topic }, `Remove ${found.topic} from the routes. A broker that still has it adds it again with its next registration.`]])),
  ];
}

function broker([found, churned, why], moment, actions) {
  const rows = (found?.brokers ?? []).map((lease) => [h("span", { class: "holder" }, dot(lease.state), lease.brokerAddr), lease.holdsId ? lease.brokerId : `(${lease.brokerId})`, visible(lease.clusterName), lease.zoneName, `${duration(lease.silentMillis)} ago`, duration(lease.heartbeatTimeoutMillis), stamp(lease.leaseBeganAt)]);
  const shares = Object.entries(churned?.availability ?? {});
  const topics = (found?.topics ?? []).map((row) => [link("topic", row.topic, moment), row.readQueueNums, row.writeQueueNums, perm(row.perm)]);
  const name = found?.brokerName;
  return [
    card("Addresses", table(["address", "id", "cluster", "zone", "heard", "lease", "alive since"], rows, "At this moment no address of this broker is alive.")),
    card("The week before this moment", churned ? sessionsChart(churned, (text) => text) : null,
      shares.length > 0 && h("p", {}, shares.map(([each, share]) => h("span", { class: "share" }, `${each}: in the routes ${percent(share)} of the time in which it was expected`)))),
    h("div", { class: "columns" },
      card("Why it is so", story([...(why?.sentences ?? [])].reverse(), "The history has nothing about this broker up to this moment.")),
      card(found ? counted(found.total, "topic") : "Topics", table(["topic", "#read", "#write", "perm"], topics, "No topic."))),
    moment.epoch === null && found && card("Change", actions([
      ["Make read-only …", { type: "WIPE_WRITE_PERM_OF_BROKER", brokerName: name }, `Clients stop sending to ${name}, until it registers with a new data version.`],
      ["Make writable …", { type: "ADD_WRITE_PERM_OF_BROKER", brokerName: name }, `All topics of ${name} become readable and writable, also those that were not before.`],
    ])),
  ];
}

function churn(found, moment) {
  const name = (text) => link("broker", text.split(" ").slice(-2)[0], moment, text);
  return [
    card("Up and down", sessionsChart(found, name)),
    h("div", { class: "columns" },
      card("Flapping", table(["broker", "#unplanned ends", "#back within 10 min", "shortest session"], found.flapping.map((each) => [name(each.broker), each.unplannedEnds, each.flaps, duration(each.shortestMillis)]), "No broker ended unplanned in this time.")),
      card("Several at once", table(["from", "to", "brokers"], found.outages.map((each) => [stamp(each.firstGoneAt), stamp(each.lastGoneAt, clock), each.brokers.join(", ")]), "No two brokers ended unplanned within a minute."))),
    card("Rejected records", table(["time", "#offset", "key", "reason", "begins with"], found.rejected.map((each) => [stamp(each.eventTime), each.offset, each.key, each.reason, h("code", {}, each.text)]), "Every record kept the contract.")),
  ];
}

export function comparison([found, before, after], moment) {
  const side = (title, each) => card(title, h("p", { class: "moment" }, h("strong", {}, when(each.snapshot.eventTime ?? each.snapshot.publishedAt)), ` — epoch ${each.snapshot.epoch}`),
    h("ul", { class: "plain" }, each.clusters.flatMap((cluster) => cluster.brokers.map((group) => h("li", {}, h("span", {}, visible(cluster.name)), " ", link("broker", group.brokerName, { ...moment, epoch: each.snapshot.epoch }), " ",
      group.holders.map((holder) => h("span", { class: `chip ${holder.state}${changed(holder, found) ? " changed" : ""}`, title: holder.brokerAddr }, holder.brokerId)))))));
  const changed = (holder, { differences }) => differences.some((each) => each.table === "live" && each.key[0] === holder.brokerAddr);
  const sign = (each) => (each.before === null ? ["+", "came"] : each.after === null ? ["−", "left"] : ["~", "asked"]);
  const rows = found.differences.map((each) => [h("b", { class: sign(each)[1] }, sign(each)[0]), each.table, each.key.join(" "), values(each)]);
  return [
    h("div", { class: "columns even" }, side("Before", before), side("After", after)),
    card(`${counted(found.total, "difference")} by ${found.source}`, table(["", "table", "key", "what"], rows, "Both moments are the same."),
      found.total > found.differences.length && h("p", { class: "quiet" }, `The first ${found.differences.length} are shown.`)),
  ];
}

function values({ before, after, key }) {
  if (before && after) return Object.keys(after).filter((name) => text(before[name]) !== text(after[name])).map((name) => h("div", {}, `${name}: ${shown(name, before[name])} → ${shown(name, after[name])}`));
  const row = after ?? before;
  return Object.entries(row).filter(([, value]) => value !== null && value !== "" && !key.includes(value)).map(([name, value]) => `${name} ${shown(name, value)}`).join(", ");
}

function shown(name, value) {
  if (value === null || value === undefined) return "none";
  if (name === "perm") return perm(value);
  if (name.endsWith("_at")) return when(value);
  return name.endsWith("_millis") ? duration(value) : text(value);
}

const text = (value) => (value === null || value === undefined ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value));
