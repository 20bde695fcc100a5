// Operator commands. The dialog is about what the page showed when it was opened, so it closes when the page moves.

import { read, send } from "./data.js";
import { h } from "./dom.js";

const dialog = document.getElementById("command");

export function actions(list) {
  return h(
    "p",
    { class: "buttons commands" },
    list.map((each) => h("button", { type: "button", onclick: () => ask(...each) }, each[0])),
  );
}

export function disarm() {
  if (dialog.open) dialog.close();
  dialog.replaceChildren();
}

const HOUR_MS = 3_600_000;

// How long a command holds: it has the end as its value.
export const UNTIL = {
  input: () =>
    h(
      "label",
      {},
      "for ",
      h("input", { name: "hours", type: "number", min: 0.25, max: 168, step: 0.25, value: 2, required: true }),
      " hours",
    ),
  value: (form) => ({ value: JSON.stringify({ until: Math.round(Date.now() + form.elements.hours.value * HOUR_MS) }) }),
};

const encoded = (name) =>
  encodeURIComponent(name)
    .replace(/%20/g, "+")
    .replace(/[!'()~]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);

// A planned absence of a broker group, from now on.
export const absenceOf = (group) => ({
  input: UNTIL.input,
  value: (form) => {
    const until = Math.round(Date.now() + form.elements.hours.value * HOUR_MS),
      reason = form.elements.reason.value;
    return { key: `group/${encoded(group)}@${Date.now()}`, value: JSON.stringify({ name: group, until, reason }) };
  },
});

// The end of a planned absence now.
export const endOf = ({ name, subject, since, requestedBy: by, reason }) => ({
  input: () => null,
  value: () => ({
    key: `${subject}@${Date.parse(since)}`,
    value: JSON.stringify({ name, until: Math.max(Date.now(), Date.parse(since)), by, reason }),
  }),
});

// `name`: what has to be typed before the command is sent, null for nothing. `more`: a field whose value is sent too.
function ask(text, command, effect, name = null, more = null) {
  const outcome = h("p", { role: "status" });
  const loses = h("p", { role: "note" });
  if (command.type === "WIPE_WRITE_PERM_OF_BROKER")
    read(`v1/impact?wipe=${encodeURIComponent(command.brokerName)}`).then(
      (found) => loses.append(found.text),
      () => {},
    );
  const reason = h("input", {
    name: "reason",
    required: true,
    maxlength: 500,
    placeholder: "reason, kept in the history",
    "aria-label": "Reason",
  });
  const typed =
    name === null
      ? null
      : h("input", {
          name: "typed",
          required: true,
          autocomplete: "off",
          placeholder: `type ${name}`,
          "aria-label": `Type ${name}`,
        });
  const onSubmit = async (event) => {
    event.preventDefault();
    if (typed && typed.value !== name) {
      outcome.textContent = `Not sent. Type ${name} to confirm.`;
      return;
    }
    outcome.textContent = "Sent. Waiting for the next snapshot …";
    try {
      const done = await send({ ...command, ...more?.value(event.target), reason: reason.value });
      outcome.textContent = done.epoch
        ? `Visible in snapshot ${done.epoch}.`
        : "Sent, but not yet in a snapshot. Check that the streaming job is running.";
    } catch (problem) {
      outcome.textContent = problem.message;
    }
  };
  const form = h(
    "form",
    { onsubmit: onSubmit },
    h("h2", {}, text.replace(" …", "")),
    h("p", {}, effect),
    loses,
    typed,
    more?.input(),
    reason,
    outcome,
    h(
      "p",
      { class: "buttons" },
      h("button", { class: "primary" }, "Send"),
      h("button", { type: "button", onclick: disarm }, "Close"),
    ),
  );
  dialog.replaceChildren(form);
  dialog.showModal();
  (typed ?? reason).focus();
}
