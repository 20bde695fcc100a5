// Operator commands. The dialog is about what the page showed when it was opened, so it closes when the page moves.

import { send } from "./data.js";
import { h } from "./dom.js";

const dialog = document.getElementById("command");

export function actions(list) {
  return h("p", { class: "buttons commands" }, list.map(([text, command, effect]) => h("button", { type: "button", onclick: () => ask(text, command, effect) }, text)));
}

export function disarm() {
  if (dialog.open) dialog.close();
  dialog.replaceChildren();
}

function ask(text, command, effect) {
  const outcome = h("p", { role: "status" });
  const reason = h("input", { name: "reason", required: true, maxlength: 500, placeholder: "why, for the history", "aria-label": "Reason" });
  const onSubmit = async (event) => {
    event.preventDefault();
    outcome.textContent = "Sent; waiting until it is published …";
    try {
      const done = await send({ ...command, reason: reason.value });
      outcome.textContent = done.epoch ? `Published with epoch ${done.epoch}.` : `Kafka has it at offset ${done.offset}; no snapshot has it yet. Is the job running?`;
    } catch (problem) {
      outcome.textContent = problem.message;
    }
  };
  const form = h("form", { onsubmit: onSubmit }, h("h2", {}, text.replace(" …", "")), h("p", {}, effect), reason, outcome,
    h("p", { class: "buttons" }, h("button", { class: "primary" }, "Send"), h("button", { type: "button", onclick: disarm }, "Close")));
  dialog.replaceChildren(form);
  dialog.showModal();
  reason.focus();
}
