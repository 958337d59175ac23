// Waterfalls: of a score from the legs to the end, and of a query's time.
import { post } from "./api.js";
import { grades } from "./cards.js";
import { button, colour, el, empty, fixed, shown, table } from "./dom.js";
import { LETTERS } from "./state.js";
function lane(from, to, low, high, part) {
  const width = (high - low) || 1, start = Math.min(from, to), share = Math.abs(to - from);
  return el("div", { class: "lane" }, el("i", { class: to < from ? "minus" : null, style: { "--part": part, "--from": `${(start - low) / width * 100}%`, "--share": `${share / width * 100}%` } }));
}
export function fall(found, title) {
  const ends = found.rows.flatMap((row) => [row.start, row.end]);
  const low = Math.min(0, ...ends), high = Math.max(...ends, 1e-9);
  return el("section", { class: "fall" }, el("h3", { dir: "auto" }, title), el("p", { class: "quiet" }, `rank ${found.rank}, score ${fixed(found.score, 4)}`),
    found.rows.map((row) => {
      const total = row.kind === "fusion", change = row.end - row.start;
      const value = total ? fixed(row.end) : `${change < 0 ? "−" : "+"}${fixed(Math.abs(change))}`;
      return el("div", {},
        el("div", { class: "row", title: row.kind }, el("span", {}, row.name), lane(row.start, row.end, low, high, colour(row.name)), el("span", { class: "number" }, value)),
        row.words.length ? el("p", { class: "words" }, row.words.map((each) => el("span", {}, el("b", {}, each.word), ` in ${each.fields.join(", ") || "the document"} (${fixed(each.share)}) `))) : null,
        row.facts.length ? el("details", { class: "more" }, el("summary", { "aria-label": `Values of ${row.name}` }, row.kind === "leg" ? `rank ${row.facts[0][1]}, score ${shown(row.facts[1][1])}` : "values and parameters"),
          table(["", { name: "", number: true }], row.facts.map(([name, each]) => [name, shown(each)]))) : null);
    }),
    el("div", { class: "row" }, el("span", {}, "final"), lane(0, found.score, low, high, "var(--action)"), el("b", { class: "number" }, fixed(found.score))));
}
export async function why(page, state) {
  const [id, other] = state.id;
  if (!id) return ["Why", empty("No result is chosen", "Press why below a result.")];
  const asked = [];
  page.columns.forEach((column, at) => { for (const each of [id, other].filter(Boolean)) asked.push({ at, id: each, key: column.key }); });
  const found = await Promise.allSettled(asked.map(({ key, id: each }) => post("explain", { key, id: each })));
  const falls = found.map((each, n) => {
    const title = each.value?.title || asked[n].id;
    const name = page.columns.length > 1 ? `${LETTERS[asked[n].at].toUpperCase()}: ${title}` : title;
    return each.status === "fulfilled" ? fall(each.value, name) : el("section", { class: "fall" }, el("h3", {}, name), el("p", { class: "warn" }, "No result of this column: "), button("why is it not here?", () => page.open("lost", asked[n].at, [asked[n].id])));
  });
  const choices = page.columns[state.of].cards.filter((card) => card.id !== id);
  const select = el("select", { id: "compare-with", onchange: (event) => page.open("why", state.of, [id, event.target.value].filter(Boolean)) },
    el("option", { value: "" }, "nothing"), choices.slice(0, 100).map((card) => el("option", { value: card.id, selected: card.id === other }, `${card.rank}. ${card.title ?? card.id}`)));
  return ["Why", el("div", { class: "toolbar" }, el("label", { for: "compare-with" }, "Compare with"), select), el("div", { class: "falls" }, falls)];
}
export async function time(page, state) {
  const found = await post("time", { key: page.columns[state.of].key });
  if (!found.rows.length) return ["Time", empty("No times", "The query was refused before it was timed.")];
  const facts = [found.cache ? `Served from the ${found.cache} cache${found.asked ? `, computed for “${found.asked}”` : ""}.` : "No cache served it.", found.stage ? `Answered by ${found.stage.replaceAll("_", " ")}.` : "",
    `${fixed(found.total, 1)} ms of ${fixed(found.deadline, 0)} ms until its deadline.`];
  return ["Time", el("p", {}, facts.filter(Boolean).join(" ")),
    el("div", { class: "fall" }, found.rows.map((row) => el("div", { class: "row", title: row.about }, el("span", {}, row.name.replaceAll("_", " ")), lane(row.start, row.start + row.ms, 0, found.total, row.kind === "leg" ? colour(row.name) : row.name === "rerank" ? colour("rerank") : "var(--time)"), el("span", { class: "number" }, `${fixed(row.ms, 1)} ms`)))),
    el("p", { class: "quiet" }, found.measured ? "Spans of the trace." : "Durations are the flow's. Stages are drawn one behind the other, the legs side by side; waiting between them is not shown."),
    found.trace ? el("p", { class: "quiet" }, "Trace ", el("span", { class: "code" }, found.trace)) : null];
}
export async function lost(page, state) {
  const key = page.columns[state.of].key;
  const answer = el("div", { role: "status" });
  const field = el("input", { id: "lost-id", placeholder: "id, or words of its title", value: state.id[0] ?? "" });
  async function ask() {
    if (!field.value.trim()) return;
    answer.replaceChildren("Looking …");
    try {
      const found = await post("why", { key, id: field.value.trim() });
      if (!found.known) { answer.replaceChildren(...await similar(found)); return; }
      answer.replaceChildren(el("div", { class: "only", "data-judged": found.judged }, found.title ? el("h3", { dir: "auto" }, found.title) : null, el("p", {}, el("b", {}, found.verdict)),
        found.tests.length ? el("ul", {}, found.tests.map((each) => el("li", {}, el("b", {}, `${each.leg}: `), each.said))) : null,
        found.legs.length ? table(["leg", { name: "rank", number: true }, { name: "score", number: true }], found.legs.map((leg) => [leg.name, leg.rank, fixed(leg.score)])) : null,
        el("div", { class: "toolbar" }, button("Change parameters", () => page.open("parameters", state.of, [found.id])), el("span", { class: "quiet" }, "Grade"), grades(found, (grade) => page.judge(state.of, found, grade)))));
    } catch (error) { answer.replaceChildren(el("p", { class: "bad" }, error.message)); }
  }
  // Who writes words of a title gets the documents that the flow finds by them.
  async function similar(found) {
    const { columns: [{ cards }] } = await post("search", { text: field.value.trim(), limit: 5, ...(state.namespace ? { namespace: state.namespace } : {}), columns: [state.columns[state.of]] });
    return [el("div", { class: "only" }, el("p", {}, el("b", {}, found.verdict)),
      cards.length ? el("p", {}, "Found by these words:") : null, el("ul", {}, cards.map((each) => el("li", { dir: "auto" }, choose(each.id), ` ${each.title ?? ""}`))))];
  }
  const choose = (id) => button(id, () => { field.value = id; page.keep({ id: [id] }); ask(); }, { class: "plain code" });
  const form = el("form", { class: "toolbar", onsubmit: (event) => { event.preventDefault(); page.keep({ id: [field.value.trim()] }); ask(); } }, el("label", { for: "lost-id" }, "Why is it not here?"), field, el("button", { class: "main" }, "Look"));
  let rest;
  try {
    const found = await post("lost", { key });
    const names = [...new Set(found.lost.flatMap((each) => Object.keys(each.legs)))];
    const rows = found.lost.map((each) => [el("span", { dir: "auto" }, choose(each.id), each.title ? el("div", { class: "quiet" }, each.title) : null), `${each.where}${each.rank ? "" : `: ${each.why}`}`, each.rank ?? "–", ...names.map((name) => each.legs[name] ?? "–")]);
    rest = [el("p", { class: "quiet" }, `${found.lost.length} of ${found.candidates} candidates are not on the page. Ranks are those of the legs.`),
      found.lost.length ? table(["document", "where", { name: "rank", number: true }, ...names.map((name) => ({ name, number: true }))], rows.slice(0, 300)) : empty("Nothing was lost", "Every candidate is on the page.")];
  } catch (error) { rest = [el("p", { class: "warn" }, error.message)]; }
  if (state.id[0]) ask();
  return ["Lost candidates", form, answer, ...rest];
}
