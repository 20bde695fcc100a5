// A moment at a glance: numbers, what is wrong by its causes, then clusters and zones, then what happened last.

import { card, dot, h, link, quiet } from "./dom.js";
import { rowsOf, story, table } from "./lists.js";
import { brokerText, clock, counted, duration, endText, role, STATES, visible, when } from "./words.js";

const MOST_CAUSES = 12;
const TOPIC_STATES = {
  withoutRoute: ["without_route", "topics without a route"],
  notWritable: ["not_writable", "topics not writable"],
  degraded: ["degraded", "topics degraded"],
};

export function overview(found, moment, actions) {
  const { counts, verdict } = found;
  const brokers = ["alive", "late", "suspect", "down"]
    .filter((state) => counts[state] || !["late", "suspect"].includes(state))
    .map((state) =>
      tile(STATES[state], counts[state], link("brokers", "", moment, counts[state].toLocaleString(), { state }), state),
    );
  const topics = Object.entries(TOPIC_STATES)
    .filter(([key]) => verdict.topics[key])
    .map(([key, [state, text]]) =>
      tile(
        text,
        verdict.topics[key],
        link("topics", "", moment, verdict.topics[key].toLocaleString(), { state }),
        key === "degraded" ? "late" : "down",
      ),
    );
  return [
    h(
      "dl",
      { class: "figures", "data-key": "figures" },
      brokers,
      tile("broker groups", counts.brokerNames, link("brokers", "", moment, counts.brokerNames.toLocaleString())),
      verdict.brokers.namesWithoutMaster > 0 &&
        tile(
          "groups without a master",
          verdict.brokers.namesWithoutMaster,
          verdict.brokers.namesWithoutMaster.toLocaleString(),
          "down",
        ),
      tile("clusters", counts.clusters, counts.clusters.toLocaleString()),
      topics,
      tile("topics", counts.topics, link("topics", "", moment, counts.topics.toLocaleString())),
    ),
    counts.suspect > 0 && held(counts.suspect, found.groups, moment, actions),
    verdict.brokers.left > 0 &&
      card(
        "left",
        "Unregistered within the last hour",
        h(
          "p",
          {},
          link("brokers", "", moment, counted(verdict.brokers.left, "broker"), { state: "left" }),
          " unregistered and not returned. Such an end is planned. Check that no rollout stopped halfway.",
        ),
      ),
    verdict.causes.length > 0 && causes(verdict.causes, moment),
    h(
      "div",
      { class: "columns", "data-key": "columns" },
      h("div", {}, members(found, moment)),
      card(
        "events",
        "Latest events",
        quiet(found.lastHourText ? `In the last hour: ${found.lastHourText}.` : "No events in the last hour."),
        story(found.events, "No events up to this time."),
      ),
    ),
  ];
}

const tile = (name, count, shown, kind = "") =>
  h("div", { class: count ? kind : null, "data-key": name }, h("dt", {}, name), h("dd", {}, shown));

function held(count, groups, moment, actions) {
  const clusters = [...new Set(groups.filter((each) => each.suspect).map((each) => each.clusterName))].join(", ");
  return card(
    "held",
    "Kept by the mass-expiry guard",
    h(
      "p",
      {},
      `${counted(count, "broker")} silent for the whole heartbeat timeout. Clients still get them until they send a heartbeat, or until expiryGuardMaxMillis has passed.`,
    ),
    moment.epoch === null &&
      actions([
        [
          "Lift the guard …",
          { type: "LIFT_EXPIRY_GUARD" },
          `Removes the ${counted(count, "suspect broker")} in ${clusters} from the routes at once.`,
        ],
      ]),
  );
}

function causes(all, moment) {
  const list = (some) =>
    h(
      "ul",
      { class: "troubles" },
      some.map((each) => cause(each, moment)),
    );
  const rest = all.slice(MOST_CAUSES);
  return card(
    "problems",
    "Problems",
    list(all.slice(0, MOST_CAUSES)),
    rest.length > 0 && h("details", {}, h("summary", {}, `${rest.length} more`), list(rest)),
  );
}

// One line for the brokers that share a place, a time and a state.
function cause(each, moment) {
  const only = (places) => (places.length === 1 ? (places[0] ?? "") : undefined);
  const filters = { cluster: only(each.clusters), zone: only(each.zones), state: each.state };
  const one = (broker) =>
    h("li", {}, link("broker", broker.brokerName, moment, brokerText(broker)), " ", h("small", {}, broker.brokerAddr));
  const ends = Object.entries(each.endedBy);
  const ended =
    ends.length === 1 ? endText(ends[0][0]) : ends.map(([type, count]) => `${count} ${endText(type)}`).join(", ");
  const times =
    each.state === "down"
      ? ended + (ends.length === 1 && each.endedBy.EXPIRED ? `; last heartbeat ${span(each)}` : "")
      : `since ${span(each)}`;
  const rest = each.count - each.brokers.length;
  return h(
    "li",
    { class: each.state },
    dot(each.state),
    h(
      "div",
      {},
      h("p", {}, h("strong", {}, each.text), " ", h("small", {}, times)),
      h(
        "ul",
        { class: "names" },
        each.brokers.map(one),
        rest > 0 && h("li", {}, link("brokers", "", moment, `and ${rest.toLocaleString()} more`, filters)),
      ),
    ),
  );
}

const span = ({ firstAt, lastAt }) => (firstAt === lastAt ? when(firstAt) : `${when(firstAt)} to ${clock(lastAt)}`);

function members(found, moment) {
  if (!found.groups.length)
    return card(
      "clusters",
      "Clusters",
      quiet("No brokers registered. Set namesrvAddr of a broker to a gateway, or start `namesrv-stream fleet`."),
    );
  if (!found.clusters.length) return clusterCounts(found, moment);
  return found.clusters.map((cluster) =>
    card(
      cluster.name,
      visible(cluster.name),
      h(
        "div",
        { class: "groups" },
        cluster.brokers.map((group) => groupCard(group, moment)),
      ),
    ),
  );
}

function groupCard(group, moment) {
  const silent = (each) =>
    each.state === "alive"
      ? ""
      : [
          each.state === "suspect" && "suspect",
          Number.isFinite(each.silentMillis) && `silent ${duration(each.silentMillis)}`,
        ]
          .filter(Boolean)
          .join(", ");
  const told = (each) =>
    each.down
      ? `down since ${when(each.down.goneAt)} (${endText(each.down.endedBy)}; last heartbeat ${clock(each.down.lastHeardAt)})`
      : silent(each);
  const holder = (each) =>
    h(
      "li",
      { class: each.down ? "ghost" : null },
      dot(each.state),
      h("b", {}, role(each.brokerId)),
      h("span", { class: "address" }, each.brokerAddr),
      h("small", {}, told(each)),
    );
  const isUp = group.holders.some((each) => !each.down);
  const hasMaster = group.holders.some((each) => each.brokerId === 0 && !each.down);
  return h(
    "article",
    { class: "group", "data-key": group.brokerName },
    h("h3", {}, isUp ? link("broker", group.brokerName, moment) : h("s", {}, link("broker", group.brokerName, moment))),
    quiet(
      [group.zoneName, counted(group.topics, "topic"), isUp && !hasMaster && "no master, not writable"]
        .filter(Boolean)
        .join(" · "),
    ),
    h("ul", {}, group.holders.map(holder)),
  );
}

// Of very many brokers: each cluster as numbers, which opens into its zones.
function clusterCounts({ groups, snapshot }, moment) {
  const byCluster = new Map();
  for (const each of groups) byCluster.set(each.clusterName, [...(byCluster.get(each.clusterName) ?? []), each]);
  const sum = (of, key) => of.reduce((total, each) => total + each[key], 0);
  const states = (of) =>
    ["alive", "late", "suspect", "down"]
      .filter((state) => sum(of, state))
      .map((state) => [dot(state), `${sum(of, state).toLocaleString()} ${STATES[state]} `]);
  const number = (each, state) =>
    each[state]
      ? link("brokers", "", moment, each[state].toLocaleString(), {
          cluster: each.clusterName,
          zone: each.zoneName ?? "",
          state,
        })
      : (each[state] ?? "–"); // of a past moment nobody knows who was late
  const zoneRow = (each) => [
    link("brokers", "", moment, each.zoneName ?? "no zone", { cluster: each.clusterName, zone: each.zoneName ?? "" }),
    each.brokerNames,
    ...["alive", "late", "suspect", "down"].map((state) => number(each, state)),
    bar([each]),
  ];
  const bar = (of) => {
    const all = Math.max(
      1,
      ["alive", "late", "suspect", "down"].reduce((total, state) => total + sum(of, state), 0),
    );
    let x = 0;
    return h(
      "svg",
      { class: "bar-of", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      ["alive", "late", "suspect", "down"].map((state) => {
        const width = (100 * sum(of, state)) / all;
        x += width;
        return h("rect", { class: state, x: x - width, y: 0, width, height: 8 });
      }),
    );
  };
  return [...byCluster].map(([cluster, of]) =>
    h(
      "details",
      { class: "card cluster", "data-key": cluster, open: byCluster.size <= 8 },
      h(
        "summary",
        {},
        h("h2", {}, visible(cluster)),
        h("span", {}, `${counted(sum(of, "brokerNames"), "broker group")}: `, states(of)),
        bar(of),
      ),
      table(["zone", "#broker groups", "#up", "#late", "#suspect", "#down", ""], rowsOf(of, zoneRow), "", {
        name: cluster,
        of: snapshot,
      }),
    ),
  );
}
