// Results as cards, in one column or several.
import { button, colour, el, fixed } from "./dom.js";
const AT_A_TIME = 40;
const STATUSES = {
  ok: "The answer is complete.",
  partial: "A part of the answer is missing.",
  unranked: "The reranker read no candidate: the results are in the order of the recipe without it.",
  failed: "No leg could be searched.",
  expired: "The deadline had passed before the search began.",
  denied: "A policy does not allow the query.",
  invalid: "The query was refused.",
};
// A wish of the query: its words, and how they were read.
const SIGNS = { gt: ">", gte: "≥", lt: "<", lte: "≤", value: "=" };
function wish(each) {
  const field = each.field ?? `${(each.about ?? []).join(", ")} (of no field)`.trim();
  const bounds = Object.entries(SIGNS).filter(([name]) => (each[name] ?? null) !== null).map(([name, sign]) => `${sign} ${each[name]}`);
  const read = each.kind === "exclusion" ? `without ${each.without}` : each.kind === "order" ? `ordered by ${field}, ${each.direction}` : [field, ...bounds, each.unit ?? ""].join(" ").trim();
  return each.words ? `${each.words}: ${read}` : read;
}
export function legend(columns) {
  const names = [...new Set(columns.flatMap((column) => column.cards.flatMap((card) => card.parts.map(([name]) => name))))];
  return el("ul", { class: "legend", "aria-label": "Parts of the score" }, names.map((name) => el("li", {}, el("i", { style: { "--part": colour(name) } }), name === "rerank" ? "model (rerank)" : name)));
}
export function bar(card, greatest) {
  const label = card.parts.map(([name, value]) => `${name} ${fixed(value)}`).join(", ");
  const spans = card.parts.map(([name, value]) => el("span", { title: `${name} ${fixed(value)}`, style: { "--part": colour(name), "--share": `${Math.max(0, value) / (greatest || 1) * 100}%` } }));
  return el("div", { class: "bar" }, el("div", { class: "track", role: "img", "aria-label": label || "score" }, spans), el("span", { class: "number" }, fixed(card.score)));
}
// Offsets are those of code points.
function passage({ text, highlights }) {
  const points = [...text], parts = [];
  let end = 0;
  for (const [from, to] of highlights ?? []) {
    if (from >= points.length) break;
    parts.push(points.slice(end, from).join(""), el("mark", {}, points.slice(from, to).join("")));
    end = to;
  }
  return el("p", { class: "passage", dir: "auto" }, parts, points.slice(end).join(""));
}
function marked(text, words) {
  const found = Object.entries(words).filter(([, fields]) => fields.includes("title")).map(([word]) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!found.length) return [text];
  return text.split(new RegExp(`(${found.join("|")})`, "giu")).map((part, at) => at % 2 ? el("mark", {}, part) : part);
}
function movement(card, at, comparison) {
  if (!comparison) return null;
  if (at === 0) return card.judged in comparison.only_first ? el("small", { class: "gone", title: `not in B${comparison.only_first[card.judged] ? `: rank ${comparison.only_first[card.judged]} there` : ""}` }, "gone") : null;
  if (card.judged in comparison.only_other) return el("small", { class: "up", title: `not on A's page${comparison.only_other[card.judged] ? `: rank ${comparison.only_other[card.judged]} there` : ""}` }, "new");
  const by = comparison.moved[card.judged];
  return by === 0 ? el("small", { class: "quiet", title: "same rank as in A" }, "=") : el("small", { class: by > 0 ? "up" : "down", title: `${Math.abs(by)} ${by > 0 ? "up" : "down"} from A` }, by > 0 ? `▲${by}` : `▼${-by}`);
}
export const grades = (each, judge) => el("span", { class: "grades", role: "group", "aria-label": "Grade" }, [0, 1, 2, 3].map((grade) => button(String(grade), () => judge(grade), { "aria-pressed": String(each.grade === grade), "aria-label": `Grade ${grade}` })));
export function card(each, at, context) {
  const { comparison, greatest, fields, actions } = context;
  const chosen = Object.entries(each.fields).filter(([name, value]) => value !== null && (fields ? fields.includes(name) : true)).slice(0, fields ? 40 : 6);
  return el("li", { class: "card", tabindex: "0", "data-id": each.id, "data-judged": each.judged, "data-column": String(at) },
    el("div", { class: "rank" }, String(each.rank), movement(each, at, comparison)),
    el("div", {},
      el("h3", { dir: "auto" }, each.title ? marked(each.title, each.words) : each.id),
      bar(each, greatest),
      each.rules.length ? el("p", { class: "quiet" }, each.rules.join(", ")) : null,
      each.passages.length ? each.passages.slice(0, 1).map(passage) : each.text ? el("p", { class: "passage", dir: "auto" }, each.text) : null,
      chosen.length ? el("div", { class: "fields" }, chosen.map(([name, value]) => el("span", { dir: "auto" }, el("b", {}, `${name} `), Object.hasOwn(each.values, name) ? button(value, () => actions.filter(name, each.values[name]), { class: "plain", "aria-label": `Only with ${name}: ${value}` }) : value))) : null,
      el("div", { class: "foot" },
        el("span", { class: "code" }, each.id, each.relevance === null ? "" : ` · relevance ${fixed(each.relevance, 2)}`, each.group ? ` · ${each.group.count} in group ${each.group.key ?? ""}` : ""),
        ["like", "unlike"].map((how) => button(how, () => actions.like(how, each.id), { class: "plain", "aria-label": `Search what is ${how} ${each.id}` })),
        button("why", () => actions.why(at, each), { class: "plain", "aria-label": `Why is ${each.id} at rank ${each.rank}` }),
        grades(each, (grade) => actions.judge(at, each, grade)))));
}
export function list(column, at, letters, context) {
  const greatest = Math.max(...column.cards.map((each) => each.parts.reduce((sum, [, value]) => sum + Math.max(0, value), 0)), 0);
  const all = { ...context, greatest };
  const shown = el("ol", { class: "cards" });
  let count = 0;
  const more = button("Show more", () => fill(), { class: "plain" });
  function fill(upTo = count + AT_A_TIME) {
    shown.append(...column.cards.slice(count, upTo).map((each) => card(each, at, all)));
    count = Math.min(upTo, column.cards.length);
    more.hidden = count >= column.cards.length;
  }
  fill();
  const watch = new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) fill(); });
  watch.observe(more);
  const matching = `${column.total}${column.total_relation === "gte" ? "+" : ""}`;
  const behind = column.total_relation === "eq" ? column.cards.filter((each) => each.rank > column.total).length : 0;
  const total = `${column.cards.length} shown, ${matching} ${column.total_relation === "nearest" ? "nearest" : "matching"}${behind ? `, ${behind} by meaning alone` : ""}`;
  const legs = column.legs.map((leg) => leg.status === "ok" ? `${leg.name} ${leg.candidates}` : `${leg.name} ${leg.status}`).join(" · ");
  return el("section", { class: "list", "aria-label": `Column ${letters}`, "data-column": String(at) },
    el("div", { class: "head" }, el("h2", {}, el("span", { class: "letter" }, letters), ` ${column.recipe ?? "refused"}`, column.again ? el("span", { class: "quiet" }, " ranked here from the recorded pool") : null),
      el("span", { class: "tools" },
        button("Parameters", () => context.actions.open("parameters", at), { class: "plain" }),
        button(`Lost (${column.lost})`, () => context.actions.open("lost", at), { class: "plain" }),
        button("Time", () => context.actions.open("time", at), { class: "plain" }))),
    el("p", { class: column.status === "ok" ? "quiet" : column.status }, column.status === "ok" ? `${total} · ${legs}${column.reranked ? ` · model read ${column.reranked}` : ""}${column.took && !column.again ? ` · ${fixed(column.took, 0)} ms` : ""}${column.cache ? ` · ${column.cache} cache` : ""}${column.rules?.length ? ` · rules ${column.rules.join(", ")}` : ""}` : `${column.status}: ${STATUSES[column.status] ?? ""}`),
    column.understood?.length ? el("p", { class: "quiet", dir: "auto" }, `Understood: ${column.understood.map(wish).join("; ")}`) : null,
    column.error ? el("p", { class: "invalid" }, column.error.reason) : null,
    column.denied ? el("p", { class: "denied" }, column.denied.reason) : null,
    (column.degraded ?? []).length ? el("ul", { class: "warning" }, column.degraded.map((each) => el("li", {}, `${each.stage} is missing: ${each.reason}`))) : null,
    (column.warnings ?? []).length ? el("ul", { class: "warning" }, column.warnings.map((each) => el("li", {}, each))) : null,
    !column.cards.length && !column.error && !column.denied ? el("div", { class: "empty" }, el("h3", {}, "Nothing was found"), el("p", {}, context.elsewhere.length ? "Other namespaces:" : "Try another namespace, or ask in Lost why a document is not here."), el("p", { class: "chips" }, context.elsewhere)) : null,
    shown, more);
}
