// The page: what the address says is shown; what the user does goes into the address.
import { get, post, takeToken } from "./api.js";
import { list, legend } from "./cards.js";
import { $, button, el, empty, fixed, say } from "./dom.js";
import { experiments } from "./experiments.js";
import { aside, current, help, keys, move, save, theme } from "./manners.js";
import { overview } from "./overview.js";
import { parameters } from "./parameters.js";
import { rules } from "./rules.js";
import { sets } from "./sets.js";
import { LETTERS, go, readState, remember, replace, write } from "./state.js";
import { lost, time, why } from "./waterfall.js";
const PANELS = { why, parameters, lost, time };
const VIEWS = { sets, rules, experiments };
const NARROW = 290, KEEPS = ["lost", "parameters"];
let begin = null, known = [], latest = 0, asked = "", answer = null, tab = 0, again = 0, undo = [];
const wide = (panel) => panel === "why" || panel === "lost";
const page = {
  state: readState, get columns() { return answer?.columns ?? []; },
  // The document that was asked for stays while one goes between these panels.
  open(panel, of = 0, id = KEEPS.includes(panel) && KEEPS.includes(readState().panel) ? readState().id.slice(0, 1) : []) { go({ panel, of, id }); },
  judge: (at, card, grade) => judge(at, card, grade),
  keep: (changes) => replace(changes),
  reopen: () => showPanel(),
  search() { asked = ""; follow(); },
  columnB(column) { const state = readState(); go({ columns: [state.columns[0], column] }); },
  async change(at, changes) {
    const state = readState();
    state.columns[at] = { ...state.columns[at], ...changes };
    replace({ columns: state.columns });
    asked = query(state); settings();
    const mine = ++again;
    try {
      const column = await post("rank", { key: answer.columns[at].key, column: state.columns[at] });
      if (mine !== again) return;
      answer.columns[at] = column;
      if (answer.columns.length > 1) answer.comparisons = (await post("compare", { keys: answer.columns.map((each) => each.key) })).comparisons;
      if (mine === again) { show(); say("Ranked again from the recorded candidates. “Ask the flow” sends the query with these parameters."); }
    } catch (error) { if (mine === again) say(error.message, "bad"); }
  },
};
const query = (state) => JSON.stringify([state.text, state.namespace, state.limit, state.filters, state.like, state.columns]);
function settings() {
  const state = readState(), box = $("columns");
  box.replaceChildren();
  if (!begin) return;
  state.columns.forEach((column, at) => {
    const own = begin.configurations.find((each) => each.name === column.config) ?? begin.configurations[0];
    const set = (changes) => { const columns = [...state.columns]; columns[at] = { ...column, overrides: {}, ...changes }; go({ columns }); };
    const choose = (name, value, first, options) => { const select = el("select", { "aria-label": `${name} of column ${LETTERS[at].toUpperCase()}`, onchange: (event) => set({ [name]: event.target.value }) }, el("option", { value: "" }, first), options.map((each) => el("option", { value: each, selected: each === value }, each)));
      if (value && !options.includes(value)) select.append(el("option", { value, selected: true }, value)); return select; };
    const changed = Object.values(column.overrides).reduce((sum, each) => sum + (each && typeof each === "object" ? Object.keys(each).length : 1), 0) + (column.min_relevance !== null) + !column.rerank;
    box.append(el("div", { class: "column-setting", role: "group", "aria-label": `Column ${LETTERS[at].toUpperCase()}` }, el("span", { class: "letter" }, LETTERS[at].toUpperCase()),
      begin.configurations.length > 1 ? choose("config", column.config, begin.configurations[0].name, begin.configurations.slice(1).map((each) => each.name)) : null,
      choose("recipe", column.recipe, "the profile’s recipe", own.recipes), choose("profile", column.profile, begin.defaults.profile, Object.keys(own.profiles).filter((each) => each !== begin.defaults.profile)),
      Object.keys(column.rules).length ? el("span", { class: "warn" }, `tries ${Object.keys(column.rules).join(", ")}`) : null,
      changed ? button(`${changed} changed`, () => page.open("parameters", at), { class: "plain warn" }) : null,
      at || state.columns.length > 1 ? button("×", () => go({ columns: state.columns.filter((_, place) => place !== at), of: 0 }), { class: "plain", "aria-label": `Remove column ${LETTERS[at].toUpperCase()}` }) : null));
  });
  if (state.columns.length < LETTERS.length) box.append(button("+ Column", () => go({ columns: [...state.columns, { recipe: "", profile: "", config: "", overrides: {}, rules: {}, rerank: true, min_relevance: null }] }), { id: "add", class: "plain" }));
  for (const [name, what] of [["filters", "the filter "], ["like", ""]]) box.append(...state[name].map(([field, value], at) => button(`${field}: ${value} ×`, () => go({ [name]: state[name].filter((_, place) => place !== at) }), { class: "chip", "aria-label": `Remove ${what}${field}: ${value}` })));
  const names = [...new Set(page.columns.flatMap((column) => column.cards.flatMap((card) => Object.keys(card.fields))))].sort();
  if (names.length && !state.view) box.append(el("details", { class: "column-setting" }, el("summary", {}, "Fields"), names.map((name) => el("label", {}, el("input", { type: "checkbox", checked: state.fields ? state.fields.includes(name) : true, onchange: (event) => {
    const chosen = new Set(readState().fields ?? names);
    if (event.target.checked) chosen.add(name); else chosen.delete(name);
    replace({ fields: [...chosen] }); show();
  } }), ` ${name} `))));
}
function show() {
  const state = readState(), view = $("view"), count = answer.columns.length;
  tab = Math.min(tab, count - 1);
  const context = (at) => ({ comparison: at === 0 ? (count === 2 ? answer.comparisons[0] : null) : answer.comparisons[at - 1], fields: state.fields, actions: { judge, open: page.open, why: (of, card) => page.open("why", of, [card.id]), filter: (field, value) => go({ filters: [...state.filters.filter(([other]) => other !== field), [field, value]] }), like: (how, id) => go({ like: [...state.like.filter(([, other]) => other !== id), [how, id]] }) }, elsewhere });
  const elsewhere = known.filter((each) => each !== (state.namespace || begin.defaults.namespace)).slice(0, 20).map((each) => el("a", { class: "chip", href: write({ ...state, namespace: each }) }, each));
  const lists = answer.columns.map((column, at) => list(column, at, LETTERS[at].toUpperCase(), context(at)));
  const narrow = count > 1 && view.clientWidth / count < NARROW;
  const tabs = narrow ? el("div", { class: "tabs", role: "tablist", "aria-label": "Columns" }, answer.columns.map((column, at) => {
    const other = answer.comparisons[at - 1];
    const moved = other ? Object.values(other.moved).filter((each) => each).length : 0, fresh = other ? Object.keys(other.only_other).length : 0;
    return button(`${LETTERS[at].toUpperCase()} ${column.recipe ?? ""}${other ? ` · ${moved} moved, ${fresh} new` : ""}`, () => { tab = at; show(); }, { role: "tab", "data-tab": String(at), "aria-selected": String(at === tab) });
  })) : null;
  if (narrow) lists.forEach((each, at) => { each.hidden = at !== tab; });
  const overlaps = answer.comparisons.map((each, at) => el("p", { class: "quiet" }, el("b", {}, `${LETTERS[at + 1].toUpperCase()} and A: `), `overlap RBO ${fixed(each.rbo, 2)}, Jaccard@${each.depth} ${fixed(each.jaccard, 2)}, ${Object.values(each.moved).filter((by) => by).length} moved, ${Object.keys(each.only_first).length} only in A, ${Object.keys(each.only_other).length} only in ${LETTERS[at + 1].toUpperCase()}`));
  const box = el("div", { class: "lists" }, lists);
  box.style.setProperty("--count", narrow ? 1 : count);
  const kept = current();
  view.replaceChildren(...[legend(answer.columns), ...overlaps, tabs, box].filter(Boolean));
  if (kept) [...view.querySelectorAll(".card")].find((each) => each.dataset.id === kept.dataset.id && each.dataset.column === kept.dataset.column)?.classList.add("current");
  settings();
}
async function judge(at, card, grade) {
  const state = readState();
  const namespace = state.namespace || begin.defaults.namespace;
  const wanted = card.grade === grade ? null : grade;
  if (await grading(state.text, namespace, card.judged, wanted, true)) card.grade = wanted;
}
async function grading(text, namespace, id, grade, note) {
  try {
    const { before } = await post("judge", { text, namespace, id, grade });
    if (note) undo.push({ text, namespace, id, grade: before });
    for (const column of page.columns) for (const each of column.cards) if (each.judged === id) each.grade = grade;
    for (const each of document.querySelectorAll("[data-judged]")) if (each.dataset.judged === id) each.querySelectorAll(".grades button").forEach((one) => one.setAttribute("aria-pressed", String(one.textContent === String(grade))));
    say(grade === null ? `The grade of ${id} was taken back.` : `${id} has grade ${grade}. u undoes it.`);
    return true;
  } catch (error) { say(error.message, "bad"); return false; }
}
async function showPanel() {
  const state = readState(), panel = $("panel"), make = PANELS[state.panel];
  const open = Boolean(make && answer && !state.view && answer.columns[state.of]);
  const was = !panel.hidden;
  panel.hidden = !open;
  document.body.classList.toggle("open", open); document.body.classList.toggle("wide", open && wide(state.panel));
  if (!open) { panel.replaceChildren(); return was; }
  const close = button("Close", () => go({ panel: "", id: [] }), { class: "plain", "aria-label": "Close the panel" });
  if (!was) panel.replaceChildren(el("div", { class: "head" }, el("p", { class: "quiet" }, "Reading …"), close));
  try {
    const [title, ...parts] = await make(page, state);
    panel.replaceChildren(el("div", { class: "head" }, el("h2", {}, title), close), ...parts.flat().filter(Boolean));
  } catch (error) { panel.replaceChildren(el("div", { class: "head" }, el("h2", {}, "Not possible"), close), el("p", { class: "bad" }, error.message)); }
  return was !== open;
}
async function ask(state) {
  const mine = ++latest;
  asked = query(state);
  say("Searching …"); $("view").setAttribute("aria-busy", "true");
  const body = { text: state.text, limit: state.limit, columns: state.columns };
  if (state.namespace) body.namespace = state.namespace;
  if (state.filters.length) body.filters = state.filters.map(([field, value]) => ({ field, op: "eq", value }));
  const of = (how) => state.like.filter(([each]) => each === how).map(([, id]) => id);
  if (state.like.length) body.like = { ids: of("like"), unlike: of("unlike") };
  try {
    const found = await post("search", body);
    if (mine !== latest) return;
    answer = found; remember(state.text, state.namespace); say("");
    show();
  } catch (error) {
    if (mine !== latest) return;
    answer = null; say("");
    $("view").replaceChildren(empty("The search failed", error.message));
  }
  $("view").removeAttribute("aria-busy");
}
function fill(state) { $("text").value = state.text; $("namespace").value = state.namespace; $("limit").value = state.limit; }
async function follow(searches = true) {
  const state = readState();
  fill(state); settings();
  for (const name of Object.keys(VIEWS)) $(`to-${name}`).href = write({ ...state, view: name, panel: "" });
  document.title = state.text ? `${state.text} – rankstream` : "rankstream console";
  if (Object.hasOwn(VIEWS, state.view)) {
    asked = ""; await showPanel();
    try { $("view").replaceChildren(await VIEWS[state.view](page)); say(""); } catch (error) { $("view").replaceChildren(empty(`The ${state.view} can't be read`, error.message)); }
    return;
  }
  if (!state.text) { answer = null; asked = ""; say(""); await showPanel(); $("view").replaceChildren(overview(state, names)); $("text").focus(); settings(); return; }
  // Nobody but the user searches: a page that another site has opened waits for the button.
  if (!searches) { $("view").replaceChildren(empty("A link was followed", "Press Search to send this query.")); return; }
  if (asked !== query(state)) { await ask(state); await showPanel(); }
  else if (await showPanel() && answer) show();
}
// Where the default namespace has no document, the first one is written into the field.
function names(found) {
  known = [...new Set([...(begin?.namespaces ?? []), ...found])];
  $("namespaces").replaceChildren(...known.map((each) => el("option", { value: each })));
  if (found.length && !found.includes(begin.defaults.namespace) && !$("namespace").value && !readState().text) $("namespace").value = found[0];
}
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const changes = { view: "", panel: readState().panel === "why" ? "" : readState().panel, id: [], text: $("text").value, namespace: $("namespace").value, limit: Math.max(1, Math.min(200, Number($("limit").value) || 10)) };
  const address = write({ ...readState(), ...changes });
  asked = ""; $("view").focus({ preventScroll: true });
  if (location.hash === address) follow(); else location.hash = address;
});
const focused = (work) => { const card = current(); if (card) work(Number(card.dataset.column), page.columns[Number(card.dataset.column)].cards.find((each) => each.id === card.dataset.id)); };
const opened = (panel) => () => { if (answer) page.open(panel, Number(current()?.dataset.column ?? tab)); };
keys({ "/": () => { $("text").focus(); $("text").select(); }, j: () => move(1), k: () => move(-1), h: () => aside(-1), l: () => aside(1), "?": help, w: () => focused((at, card) => page.open("why", at, [card.id])), p: opened("parameters"), x: opened("lost"), t: opened("time"), s: () => go({ view: "sets", panel: "" }), r: () => go({ view: "rules", panel: "" }), e: save,
  u: () => { const last = undo.pop(); if (last) grading(last.text, last.namespace, last.id, last.grade, false); else say("There is nothing to undo."); }, close: () => { if (readState().panel) go({ panel: "", id: [] }); },
  ...Object.fromEntries([0, 1, 2, 3].map((grade) => [String(grade), () => focused((at, card) => judge(at, card, grade))])) });
$("help").addEventListener("click", help); $("export").addEventListener("click", save); theme(); takeToken();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width && answer && !readState().view) show(); width = innerWidth; });
addEventListener("hashchange", () => { takeToken(); follow(); });
get("begin").then((found) => { begin = found; $("to-experiments").hidden = !found.experiments; $("namespace").placeholder = found.defaults.namespace; names([]); return follow(!("linked" in document.body.dataset)); }).catch((error) => $("view").replaceChildren(empty("The console can't be used from this link", error.message)));
