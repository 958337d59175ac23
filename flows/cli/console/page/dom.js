// Elements made of data. Texts reach the page as text nodes only: nothing in them is ever read as HTML.
export function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "style") for (const [key, each] of Object.entries(value)) made.style.setProperty(key, each);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}
export const $ = (id) => document.getElementById(id);
export const button = (text, onclick, options = {}) => el("button", { type: "button", onclick, ...options }, text);
export const fixed = (value, digits = 3) => value === null || value === undefined ? "–" : Number(value).toFixed(digits);
export const shown = (value) => typeof value === "number" && !Number.isInteger(value) ? (Math.abs(value) < 1e-4 && value ? value.toExponential(1) : value.toFixed(4)) : value === true ? "yes" : value === false ? "no" : String(value);
export function say(words, kind = "") { const state = $("state"); state.textContent = words; state.className = kind; }
export function empty(title, text, ...more) { return el("div", { class: "empty" }, el("h2", {}, title), el("p", {}, text), more); }
export function table(heads, rows) {
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head.number ? "number" : head.class }, head.name ?? head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) => el("td", { class: heads[at].number ? "number" : heads[at].class }, cell)))))));
}
// One colour for a part, the same on the whole page.
const COLOURS = { vector: "vector", vector_context: "time", keyword: "keyword", keyword_context: "fuzzy", fuzzy: "fuzzy", learned: "time", structured: "other", rerank: "model", llm_rerank: "model", coverage: "coverage" };
export const colour = (name) => `var(--${COLOURS[name] ?? "other"})`;
