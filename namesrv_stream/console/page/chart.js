// Sessions of brokers as bars, and their ends as marks: one line a broker.

import { h } from "./dom.js";
import { brokerText, counted, endText, percent, when } from "./words.js";

const WIDTH = 1000;
const MAX_ROWS = 40;

export function sessionsChart(found, label) {
  const until = new Date(found.snapshot.eventTime ?? found.snapshot.publishedAt).getTime();
  const begins = found.sessions.map((each) => new Date(each.from).getTime());
  const since = Math.max(new Date(found.since).getTime(), Math.min(...begins, until));
  const rows = new Map();
  for (const session of found.sessions) rows.set(session.broker, [...(rows.get(session.broker) ?? []), session]);
  if (!rows.size) return h("p", { class: "quiet" }, "No broker was up in this time.");
  const ends = (sessions) => sessions.filter((each) => each.endedBy).length;
  const most = [...rows]
    .sort((one, other) => ends(other[1]) - ends(one[1]) || one[0].localeCompare(other[0], undefined, { numeric: true }))
    .slice(0, MAX_ROWS);
  const x = (at) => (WIDTH * (Math.max(since, Math.min(until, new Date(at))) - since)) / Math.max(1, until - since);
  const line = ([broker, sessions]) =>
    h(
      "div",
      { class: "line" },
      h("span", { class: "name" }, label(sessions[0])),
      h(
        "svg",
        {
          viewBox: `0 0 ${WIDTH} 20`,
          preserveAspectRatio: "none",
          role: "img",
          "aria-label": `${brokerText(sessions[0])}: ${counted(ends(sessions), "end")}`,
        },
        h("rect", { class: "away", x: 0, y: 8, width: WIDTH, height: 4 }),
        sessions.map((each) =>
          h(
            "rect",
            { class: "up", x: x(each.from), y: 4, width: Math.max(1, x(each.to ?? until) - x(each.from)), height: 12 },
            h("title", {}, `${each.brokerAddr} from ${when(each.from)}${each.to ? ` to ${when(each.to)}` : ""}`),
          ),
        ),
        sessions
          .filter((each) => each.to)
          .map((each) =>
            h(
              "rect",
              {
                class: each.unplanned ? "crash" : "planned",
                x: Math.min(WIDTH - 4, x(each.to)),
                y: 0,
                width: 4,
                height: 20,
              },
              h("title", {}, `${endText(each.endedBy)} at ${when(each.to)}`),
            ),
          ),
      ),
      h("span", { class: "number" }, percent(found.availability[broker] ?? 1)),
    );
  return h(
    "div",
    { class: "chart" },
    most.map(line),
    h(
      "div",
      { class: "line axis" },
      h("span"),
      h(
        "span",
        { class: "edges" },
        h("span", {}, when(since)),
        h(
          "span",
          { class: "legend" },
          h("i", { class: "up" }),
          "up ",
          h("i", { class: "down" }),
          "unplanned end ",
          h("i", { class: "planned" }),
          "planned end",
        ),
        h("span", {}, when(until)),
      ),
      h("span"),
    ),
    rows.size > MAX_ROWS &&
      h("p", { class: "quiet" }, `Showing the ${MAX_ROWS} brokers with most ends, of ${rows.size}.`),
  );
}
