// What happened in the last day and is over, or lasts: each with its effect, its time, and a report to copy.

import { at, peek } from "./data.js";
import { card, copied, h, link, quiet } from "./dom.js";

const PATH = "v1/incidents?since=24h";
const ASK_EVERY_MS = 15_000;
const ASK_AFTER_CHANGE_MS = 2_000; // of the number of brokers that are down
const REST_MS = 500;
const SHOWN = 5;

let askedMs = 0;
let isAsking = false;
let askedDown = null;
let timer = null;

// `redraw` is called when the answer is there. The present is asked again after a newer snapshot, at times; the past when
// the reader rests there.
export function incidents(found, moment, redraw) {
  const time = moment.at ?? moment.epoch;
  const known = peek(PATH, time);
  clearTimeout(timer);
  const ask = () => {
    isAsking = true;
    askedMs = Date.now();
    askedDown = found.counts.down;
    at(PATH, time)
      .then(redraw, () => {})
      .finally(() => {
        isAsking = false;
      });
  };
  const isOld = time === null && known?.snapshot.epoch !== found.snapshot.epoch;
  const dueMs = askedMs + (found.counts.down === askedDown ? ASK_EVERY_MS : ASK_AFTER_CHANGE_MS) - Date.now();
  if (time !== null && !known) timer = setTimeout(ask, REST_MS);
  else if (isOld && !isAsking) timer = setTimeout(ask, Math.max(0, dueMs));
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
        link("overview", "", { at: each.since, window }, "Go to its start"),
        h("button", { type: "button", class: "choose", onclick: copied(each.report) }, "Copy as incident report"),
      ),
    ),
  );
