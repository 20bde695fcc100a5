// Links to other tools, by templates that the settings links.* have: metrics, lag, a runbook.

import { read } from "./data.js";
import { h } from "./dom.js";

let templates = {};

export async function readLinks() {
  templates = await read("v1/links").catch(() => ({}));
}

// A link for a broker, a topic, a cluster or a cause; nothing without a template.
export function outward(kind, facts) {
  const template = templates[kind];
  if (!template) return null;
  const href = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(facts[name] ?? ""));
  if (!URL.canParse(href)) return null;
  return h("a", { class: "outward", href, target: "_blank", rel: "noreferrer" }, `${new URL(href).host} ↗`);
}
