// Very many brokers at a glance: clusters by zones. A cell is empty if all is well there; the wounded come first.

import { card, h, link } from "./dom.js";
import { outward } from "./outward.js";
import { counted, STATES, visible } from "./words.js";

const SHOWN = ["down", "suspect", "late"];
const ALL = ["alive", "late", "suspect", "down"];

const sum = (of, state) => of.reduce((total, each) => total + (each[state] ?? 0), 0);
const size = (of) => ALL.reduce((total, state) => total + sum(of, state), 0);
const wound = (of) => [sum(of, "down") / size(of), sum(of, "suspect") / size(of), sum(of, "late") / size(of)];
const worse = (one, other) => {
  const [first, second] = [wound(one), wound(other)];
  const at = first.findIndex((share, index) => share !== second[index]);
  return at < 0 ? 0 : second[at] - first[at];
};

export function matrix({ groups, clusterCounts = [] }, moment) {
  const by = (key, name) => groups.filter((each) => (each[key] ?? "") === name);
  const names = (key) => {
    const found = [...new Set(groups.map((each) => each[key] ?? ""))];
    return found.sort((one, other) => worse(by(key, one), by(key, other)));
  };
  const clusters = names("clusterName"),
    zones = names("zoneName");
  const count = new Map(clusterCounts.map((each) => [each.clusterName, each.brokerNames]));
  const place = (filters, text) => link("brokers", "", moment, text, filters);
  const cell = (cluster, zone) => {
    const of = by("clusterName", cluster).filter((each) => (each.zoneName ?? "") === zone);
    return h(
      "td",
      { "data-label": zone || "no zone" },
      of.length > 0 && [bar(of), states(of, { cluster, zone }, moment)],
    );
  };
  const row = (cluster) =>
    h(
      "tr",
      { "data-key": cluster },
      h(
        "th",
        { scope: "row" },
        place({ cluster }, visible(cluster)),
        h("small", {}, counted(count.get(cluster) ?? 0, "broker group")),
        outward("cluster", { cluster }),
      ),
      zones.map((zone) => cell(cluster, zone)),
    );
  const head = (zone) =>
    h(
      "th",
      { scope: "col" },
      place({ zone }, zone ? visible(zone) : "no zone"),
      " ",
      states(by("zoneName", zone), { zone }, moment),
    );
  return card(
    "clusters",
    "Clusters by zones",
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "matrix" },
        h("thead", {}, h("tr", {}, h("td"), zones.map(head))),
        h("tbody", {}, clusters.map(row)),
      ),
    ),
  );
}

// What is not well in a place, each number with its brokers; nothing if all is.
function states(of, filters, moment) {
  return SHOWN.filter((state) => sum(of, state)).map((state) =>
    h(
      "span",
      { class: `count ${state}` },
      link("brokers", "", moment, `${sum(of, state).toLocaleString()} ${STATES[state]}`, { ...filters, state }),
    ),
  );
}

function bar(of) {
  const all = Math.max(1, size(of));
  let x = 0;
  return h(
    "svg",
    {
      class: "bar-of",
      viewBox: "0 0 100 8",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${sum(of, "alive") + sum(of, "late") + sum(of, "suspect")} of ${all} up`,
    },
    ALL.map((state) => {
      const width = (100 * sum(of, state)) / all;
      x += width;
      return h("rect", { class: state, x: x - width, y: 0, width, height: 8 });
    }),
  );
}
