// A moment at a glance: what is wrong by its causes, numbers, clusters and zones, and what happened last.

import { actions, UNTIL } from "./command.js";
import { addressText, card, dot, h, link, quiet, topicState } from "./dom.js";
import { incidents } from "./incidents.js";
import { briefly, rowsOf, table } from "./lists.js";
import { matrix } from "./matrix.js";
import { outward } from "./outward.js";
import { brokerText, clock, counted, duration, endText, role, visible, when } from "./words.js";

const MOST_CAUSES = 12;
const TOPIC_STATES = {
  withoutRoute: ["without_route", "no route", "down"],
  notWritable: ["not_writable", "not writable", "down"],
  degraded: ["degraded", "degraded", "degraded"],
};

export function overview(found, moment, redraw) {
  const { verdict } = found;
  return [
    verdict.causes.length > 0 && causes(verdict.causes, moment),
    figures(found, moment),
    planned(found.plannedAbsences),
    found.counts.suspect > 0 && held(found.counts.suspect, found.groups, moment),
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
    h(
      "div",
      { class: "columns", "data-key": "columns" },
      h("div", {}, members(found, moment), suffering(found.worstTopics, verdict.topics, moment)),
      h(
        "div",
        {},
        card(
          "events",
          "Latest events",
          quiet(found.lastHourText ? `In the last hour: ${found.lastHourText}.` : "No events in the last hour."),
          briefly(found.events, "No events up to this time."),
        ),
        incidents(found, moment, redraw),
      ),
    ),
  ];
}

// Two groups of numbers. What is wrong is filled; the plain facts are quiet.
const planned = (absences) =>
  absences.length > 0 &&
  card(
    "planned",
    "Planned absences",
    h(
      "ul",
      {},
      absences.map((each) =>
        h(
          "li",
          { "data-key": each.subject },
          `${visible(each.name)} from ${when(each.since)} to ${when(each.until)}`,
          [each.reason, each.requestedBy].some(Boolean) &&
            ` (${[each.reason, each.requestedBy].filter(Boolean).join(", ")})`,
        ),
      ),
    ),
  );

function figures({ counts, verdict }, moment) {
  const brokers = (state) => link("brokers", "", moment, number(counts[state]), { state });
  const topics = ([key, [state]]) => link("topics", "", moment, number(verdict.topics[key]), { state });
  const groups = counted(counts.brokerNames, "broker group"),
    unmastered = verdict.brokers.namesWithoutMaster;
  const up = verdict.brokers.up,
    all = verdict.brokers.expected;
  return h(
    "div",
    { class: "figures", "data-key": "figures" },
    figure(
      "Brokers",
      [
        tile(
          `up of ${all.toLocaleString()}`,
          true,
          link("brokers", "", moment, number(up), { state: "up" }),
          up ? "alive" : "down",
        ),
        tile("down", counts.down, brokers("down"), "down"),
        counts.late !== null && tile("late", counts.late, brokers("late"), "late"),
        counts.suspect > 0 && tile("suspect", counts.suspect, brokers("suspect"), "late"),
        counts.planned > 0 && tile("planned absence", false, brokers("planned")),
      ],
      `${groups}${unmastered ? `, ${number(unmastered)} without a master` : ""}, ${counted(counts.clusters, "cluster")}`,
    ),
    figure(
      "Topics",
      Object.entries(TOPIC_STATES).map((each) => tile(each[1][1], verdict.topics[each[0]], topics(each), each[1][2])),
      h(
        "span",
        {},
        link("topics", "", moment, counted(counts.topics, "topic")),
        verdict.topics.readOnly > 0 && `, ${number(verdict.topics.readOnly)} read-only`,
      ),
    ),
  );
}

const number = (count) => count.toLocaleString();
const figure = (title, tiles, facts) =>
  h(
    "section",
    { class: "card", "data-key": title },
    h("h2", {}, title, " ", h("small", {}, facts)),
    h("dl", {}, tiles),
  );
const tile = (name, isKind, shown, kind) =>
  h("div", { class: isKind ? kind : null, "data-key": name }, h("dt", {}, name), h("dd", {}, shown));

// The ten topics that suffer most, with what each lacks.
function suffering(topics, counts, moment) {
  const all = counts.withoutRoute + counts.notWritable + counts.degraded;
  if (!topics.length) return null;
  const row = (each) => [
    link("topic", each.topic, moment),
    topicState(each),
    `${each.brokerNamesUp} of ${each.brokerNames}`,
    h(
      "span",
      {},
      each.missing.map((name, index) => [index > 0 && ", ", link("broker", name, moment)]),
      each.missingMore > 0 && ` and ${number(each.missingMore)} more`,
    ),
  ];
  return card(
    "suffering",
    "Topics that suffer",
    table(["topic", "state", "#groups with a master", "down or without a master"], rowsOf(topics, row), "", {
      name: "suffering",
    }),
    all > topics.length &&
      quiet(
        `The gravest ${topics.length} of ${number(all)}. `,
        link("topics", "", moment, "All topics by state", { sort: "state" }),
      ),
  );
}

function held(count, groups, moment) {
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

const only = (places) => (places.length === 1 ? places[0] : "");

// One line for the brokers that share a place, a time and a state.
function cause(each, moment) {
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
      acknowledged(each.acknowledged),
      h(
        "ul",
        { class: "names" },
        each.brokers.map(one),
        h("li", {}, outward("cause", { state: each.state, cluster: only(each.clusters), zone: only(each.zones) })),
        moment.epoch === null && moment.at === null && !each.acknowledged && acknowledgement(each),
        rest > 0 && h("li", {}, link("brokers", "", moment, `and ${rest.toLocaleString()} more`, { cause: each.id })),
      ),
    ),
  );
}

const acknowledged = (told) =>
  told &&
  h(
    "p",
    { class: "quiet" },
    `Acknowledged${told.by ? ` by ${told.by}` : ""} until ${when(told.until)}${told.reason ? `: ${told.reason}` : ""}`,
  );

const acknowledgement = (each) =>
  h(
    "li",
    {},
    actions([
      [
        "Acknowledge …",
        { type: "PUT_KV_CONFIG", namespace: "NAMESRV_STREAM_ACKNOWLEDGED", key: each.id },
        `${each.text}. The page shows who acknowledged it, until when, and why.`,
        null,
        UNTIL,
      ],
    ]),
  );

const span = ({ firstAt, lastAt }) => (firstAt === lastAt ? when(firstAt) : `${when(firstAt)} to ${clock(lastAt)}`);

function members(found, moment) {
  if (!found.groups.length)
    return card(
      "clusters",
      "Clusters",
      quiet("No brokers registered. Set namesrvAddr of a broker to a gateway, or start `namesrv-stream fleet`."),
    );
  if (!found.clusters.length) return matrix(found, moment);
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
      addressText(each.brokerAddr),
      each.zoneName !== group.zoneName && h("small", {}, each.zoneName ?? "no zone"),
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
