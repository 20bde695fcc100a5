// The search of the whole page: what is typed is looked for among topics, brokers, clusters and zones at the moment shown.

import { at } from "./data.js";
import { h, patch } from "./dom.js";
import { brokerText, counted, visible, when } from "./words.js";

const MOST = 6;
const PAUSE_MS = 120;

const form = document.getElementById("search");
const input = form.elements.q;
const list = document.getElementById("found");

// `epoch()` is the moment shown; `go(view, name, filters)` leads to what was chosen.
export function setUpSearch(epoch, go) {
  let found = [],
    part = "",
    chosen = 0,
    timer = null,
    turn = 0;

  const draw = () => {
    const isOpen = input.value.trim() !== "" && document.activeElement === input;
    list.hidden = !isOpen;
    input.setAttribute("aria-expanded", isOpen);
    input.setAttribute("aria-activedescendant", isOpen && found.length ? `found-${chosen}` : "");
    const option = (each, index) =>
      h(
        "li",
        {
          id: `found-${index}`,
          role: "option",
          "aria-selected": index === chosen,
          onpointerdown: (event) => {
            event.preventDefault();
            choose(index);
          },
        },
        h("span", {}, visible(each.text)),
        h("small", {}, each.kind),
      );
    patch(
      list,
      found.length
        ? [...found.map(option), ...(part ? [h("li", { class: "quiet" }, part)] : [])]
        : [h("li", { class: "quiet" }, part || "No match at this time.")],
    );
  };

  const choose = (index) => {
    const { view, name = "", filters } = found[index];
    input.value = "";
    found = [];
    document.getElementById("content").focus({ preventScroll: true });
    go(view, name, filters);
  };

  const look = async () => {
    const asked = ++turn,
      text = input.value.trim();
    const results = text && epoch() !== undefined ? await candidates(text, epoch()) : [[], ""];
    if (asked !== turn) return false;
    [[found, part], chosen] = [results, 0];
    draw();
    return true;
  };

  const onKey = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      input.value = "";
      input.blur();
    }
    if (!by || !found.length) return;
    chosen = (chosen + by + found.length) % found.length;
    draw();
    event.preventDefault();
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE_MS);
  });
  input.addEventListener("keydown", onKey);
  input.addEventListener("focus", look);
  input.addEventListener("blur", draw);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    if (found.length || (await look())) if (found.length) choose(chosen);
  });
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea, dialog");
    if (!((event.key === "/" && !isTyping) || (event.key === "k" && (event.ctrlKey || event.metaKey)))) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

// What has the text in its name: exact names first, then those that begin with it; and of how much that is a part.
async function candidates(text, epoch) {
  const asked = encodeURIComponent(text);
  let problem = null;
  const nothing = (error) => {
    problem = error;
    return null;
  };
  const [brokers, topics, all, left, went] = await Promise.all([
    at(`v1/brokers?q=${asked}&sort=match&limit=${MOST}`, epoch).catch(nothing),
    at(`v1/topics?q=${asked}&sort=match&limit=${MOST}`, epoch).catch(nothing),
    at("v1/overview", epoch).catch(nothing),
    at(`v1/brokers?q=${asked}&state=left&sort=match&limit=${MOST}`, epoch).catch(nothing),
    at(`v1/topics?q=${asked}&state=left&sort=match&limit=${MOST}`, epoch).catch(nothing),
  ]);
  if (!brokers && !topics && !all) return [[], `Nothing can be looked up now. ${problem.message}`];
  const found = [];
  for (const each of brokers?.brokers ?? [])
    found.push({
      kind: `broker in ${each.clusterName}`,
      text: brokerText(each),
      view: "broker",
      name: each.brokerName,
    });
  for (const each of (brokers?.brokers ?? []).filter((one) => one.brokerAddr.includes(text)))
    found.push({
      kind: `address of ${brokerText(each)}`,
      text: each.brokerAddr,
      view: "broker",
      name: each.brokerName,
    });
  for (const each of topics?.topics ?? [])
    found.push({ kind: "topic", text: each.topic, view: "topic", name: each.topic, isLast: each.isSystem });
  for (const each of went?.topics ?? [])
    found.push({ kind: "removed topic", text: each.topic, view: "topic", name: each.topic });
  for (const each of left?.brokers ?? [])
    found.push({
      kind: `broker, unregistered at ${when(each.down.goneAt)}`,
      text: brokerText(each),
      view: "broker",
      name: each.brokerName,
    });
  const has = (name) => name?.toLowerCase().includes(text.toLowerCase());
  for (const each of all?.groups ?? []) {
    if (has(each.clusterName))
      found.push({ kind: "cluster", text: each.clusterName, view: "brokers", filters: { cluster: each.clusterName } });
    if (has(each.zoneName))
      found.push({ kind: "zone", text: each.zoneName, view: "brokers", filters: { zone: each.zoneName } });
  }
  const once = [...new Map(found.map((each) => [`${each.kind} ${each.text}`, each])).values()];
  const rank = ({ text: shown, name = shown, isLast }) =>
    isLast ? 3 : [shown, name].includes(text) ? 0 : shown.toLowerCase().startsWith(text.toLowerCase()) ? 1 : 2;
  const part = [
    ["broker", brokers],
    ["topic", topics],
  ]
    .filter(([, page]) => page?.next)
    .map(([noun, page]) => `Showing ${MOST} of ${counted(page.total, noun)}`);
  return [once.sort((one, other) => rank(one) - rank(other)).slice(0, 4 * MOST), part.join(", ")];
}
