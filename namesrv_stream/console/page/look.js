// How the page looks, whatever it shows: dark or light, a wall without controls (?kiosk), the keys, and a printed page.

import { h } from "./dom.js";
import { momentText } from "./words.js";

const KEPT = "namesrv-stream.theme";
const THEMES = { "": "as the system", light: "light", dark: "dark" };
const KEYS = [
  ["/ or Ctrl+K", "search"],
  ["← →", "previous, next change (on the track)"],
  ["Shift+← →", "previous, next snapshot (on the track)"],
  ["Home, End", "first change, now (on the track)"],
  ["Space", "play or pause (on the track)"],
  ["Esc", "leave the search, close a dialog"],
  ["?", "these keys"],
];

const root = document.documentElement;
const stored = (act) => {
  try {
    return act(localStorage);
  } catch {
    return null; // no storage: it holds until the page is loaded again
  }
};

function setTheme(name) {
  root.style.colorScheme = name || "light dark";
  stored((storage) => (name ? storage.setItem(KEPT, name) : storage.removeItem(KEPT)));
}

export function setUpLook() {
  const kept = stored((storage) => storage.getItem(KEPT)) ?? "";
  setTheme(kept in THEMES ? kept : "");
  let theme = kept in THEMES ? kept : "";
  const label = () => `Theme: ${THEMES[theme]}. Click for the next`;
  const next = (event) => {
    const names = Object.keys(THEMES);
    theme = names[(names.indexOf(theme) + 1) % names.length];
    setTheme(theme);
    event.currentTarget.title = label();
    event.currentTarget.setAttribute("aria-label", label());
  };
  document
    .getElementById("look")
    .replaceChildren(
      h("button", { type: "button", title: label(), "aria-label": label(), onclick: next }, "◐"),
      h("button", { type: "button", title: "Keys", "aria-label": "Show the keys", onclick: showKeys }, "?"),
    );
  document.body.classList.toggle("kiosk", new URLSearchParams(location.search).has("kiosk"));
  addEventListener("keydown", (event) => {
    if (event.key === "?" && !event.target.closest?.("input, select, textarea, dialog")) showKeys();
  });
  addEventListener("beforeprint", () => {
    document.getElementById("printed").textContent = `Printed ${momentText(Date.now())} · ${location.href}`;
  });
}

function showKeys() {
  const dialog = document.getElementById("keys");
  const rows = KEYS.map(([key, text]) => h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, text)));
  dialog.replaceChildren(
    h("h2", {}, "Keys"),
    h("table", {}, h("tbody", {}, rows)),
    h("form", { method: "dialog" }, h("button", {}, "Close")),
  );
  if (!dialog.open) dialog.showModal();
}

const LOOKED = "namesrv-stream.looked";
const AWAY_MS = 300_000;

// The snapshot that was the newest when somebody looked at the page last, if that is over five minutes ago.
export function lastLooked() {
  const found = stored((storage) => JSON.parse(storage.getItem(LOOKED)));
  return found && Date.now() - found.atMs > AWAY_MS ? found : null;
}

export const looked = (epoch) =>
  stored((storage) => storage.setItem(LOOKED, JSON.stringify({ epoch, atMs: Date.now() })));
