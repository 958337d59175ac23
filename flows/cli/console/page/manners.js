// Manners of the page: keys, light and dark, and its export as one file.
import { $, button, el, say } from "./dom.js";
const KEYS = [["/", "search"], ["j, k", "next and previous result"], ["h, l", "previous and next column"], ["0 1 2 3", "grade the result"], ["u", "undo the last grade"], ["w", "why: the waterfall of the result"], ["p", "parameters"], ["x", "lost candidates"], ["t", "time"], ["s", "query sets"], ["r", "rules"], ["e", "export"], ["?", "these keys"], ["Esc", "close"]];
export function theme() {
  const kept = localStorage.getItem("rankstream-theme");
  if (kept) document.documentElement.dataset.theme = kept;
  $("theme").addEventListener("click", () => {
    const dark = (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("rankstream-theme", document.documentElement.dataset.theme);
  });
}
export function help() {
  const dialog = $("keys");
  dialog.replaceChildren(el("h2", { id: "keys-title" }, "Keyboard"), el("table", {}, el("tbody", {}, KEYS.map(([key, what]) => el("tr", {}, el("td", {}, key.split(" ").map((each) => [el("kbd", {}, each.replace(",", "")), " "])), el("td", {}, what))))), button("Close", () => dialog.close(), { class: "main" }));
  dialog.showModal();
}
export function keys(actions) {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") { if (document.activeElement?.matches("input, select")) { event.preventDefault(); document.activeElement.blur(); } else actions.close(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog[open]")) return;
    const action = actions[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  addEventListener("focusin", (event) => {
    const card = event.target.closest?.(".card");
    if (card) { document.querySelectorAll(".card.current").forEach((each) => each.classList.remove("current")); card.classList.add("current"); }
  });
}
export const current = () => document.querySelector(".card.current");
export function move(by) {
  const at = current()?.dataset.column ?? "0";
  const cards = [...document.querySelectorAll(`.card[data-column="${at}"]`)];
  const card = cards[Math.max(0, Math.min(cards.length - 1, cards.indexOf(current()) + by))];
  card?.focus(); card?.scrollIntoView({ block: "nearest" });
}
export function aside(by) {
  const card = current(), at = Number(card?.dataset.column ?? 0) + by;
  document.querySelector(`.tabs [data-tab="${at}"]`)?.click();
  const cards = [...document.querySelectorAll(`.card[data-column="${at}"]`)];
  (cards.find((each) => each.dataset.id === card?.dataset.id) ?? cards[0])?.focus();
}
// The page as one file without scripts: styles go into it, fields keep their values.
export async function save() {
  const styles = await Promise.all([...document.querySelectorAll("link[rel=stylesheet]")].map((each) => fetch(each.href).then((read) => read.text())));
  const copy = document.documentElement.cloneNode(true);
  const live = document.querySelectorAll("input, select");
  copy.querySelectorAll("input, select").forEach((each, at) => each.replaceWith(el("b", { class: "quiet" }, `${live[at].tagName === "SELECT" ? live[at].selectedOptions[0]?.textContent ?? "" : live[at].type === "checkbox" ? (live[at].checked ? "on" : "off") : live[at].value} `)));
  copy.querySelectorAll("script, link, noscript, dialog, button, datalist, .tabs").forEach((each) => each.remove());
  copy.querySelectorAll(".track span, .lane i, .legend i, .lists").forEach((each) => each.setAttribute("style", each.style.cssText));
  const head = copy.querySelector("head");
  head.append(el("meta", { "http-equiv": "content-security-policy", content: "default-src 'none'; style-src 'unsafe-inline'" }));
  const style = document.createElement("style");
  style.textContent = styles.join("\n");
  head.append(style);
  const file = new Blob([`<!doctype html>\n${copy.outerHTML}`], { type: "text/html" });
  const link = el("a", { href: URL.createObjectURL(file), download: "rankstream.html" });
  link.click();
  URL.revokeObjectURL(link.href);
  say("The page was saved as rankstream.html.");
}
