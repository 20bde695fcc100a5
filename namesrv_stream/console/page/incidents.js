// What happened in the last day and is over, or lasts: each with its effect, its time, and a report to copy.

import { at, peek } from "./data.js";
import { card, copied, h, link, quiet } from "./dom.js";

const PATH = "v1/incidents?since=24h";
const ASK_EVERY_MS = 15_000;
const SHOWN = 5;

let asked = { down: null, atMs: 0 };

// `redraw` is called when the answer is there. Of the present it is asked again when more or fewer brokers are down.
export function incidents(found, moment, redraw) {
  const time = moment.at ?? moment.epoch;
  const known = peek(PATH, time);
  const { down } = found.verdict.brokers;
  const isOld = time === null && down !== asked.down && Date.now() - asked.atMs > ASK_EVERY_MS;
  if (!known || isOld) {
    if (time === null) asked = { down, atMs: Date.now() };
    at(PATH, time).then(redraw, () => {});
  }
  const list = known?.incidents ?? [];
  if (!list.length) return null;
  return card(
    "incidents",
    "Incidents of the last 24 hours",
    h(
      "ul",
      { class: "troubles" },
      list.slice(0, SHOWN).map((each) => incident(each, moment)),
    ),
    list.length > SHOWN && quiet(`The newest ${SHOWN} of ${list.length}.`),
  );
}

const incident = (each, { window }) =>
  h(
    "li",
    { class: each.lasts ? "down" : "over", "data-key": each.since },
    h("div", {}),
    h(
      "div",
      {},
      h("p", {}, each.text),
      h(
        "p",
        { class: "buttons" },
        link("overview", "", { at: each.since, window }, "Go to its begin"),
        h("button", { type: "button", class: "choose", onclick: copied(each.report) }, "Copy as incident report"),
      ),
    ),
  );
