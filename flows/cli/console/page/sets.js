// Query sets: the judged queries, a run of the columns over them, and tuning that starts from there.
import { get, post } from "./api.js";
import { button, el, empty, fixed, say, table } from "./dom.js";
import { LETTERS, write } from "./state.js";
const METRICS = ["nDCG@10", "MRR@10", "recall@10", "any@1", "any@5", "any@10"];
const BATCH = 16;
const KEPT = "rankstream-run";
let done = null;
export async function sets(page) {
  const state = page.state(), set = await get("set");
  const judged = set.queries.filter((each) => each.relevant > 0);
  const metric = el("select", { id: "metric", onchange: () => show() }, METRICS.map((each) => el("option", {}, each)));
  const bar = el("progress", { max: "1", value: "0", hidden: true, "aria-label": "Progress of the run" });
  const figures = el("div", {}), rows = el("div", {});
  const key = JSON.stringify([state.columns, set.revision]);
  done ??= JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  async function run() {
    bar.hidden = false; bar.value = 0;
    const values = state.columns.map(() => Object.fromEntries(METRICS.map((each) => [each, {}])));
    try {
      for (let from = 0; from < judged.length; from += BATCH) {
        const { columns } = await post("run", { columns: state.columns, queries: judged.slice(from, from + BATCH).map((each) => each.id) });
        columns.forEach((column, at) => METRICS.forEach((each) => Object.assign(values[at][each], column[each])));
        bar.value = Math.min(1, (from + BATCH) / judged.length);
      }
      done = { key, values };
      try { sessionStorage.setItem(KEPT, JSON.stringify(done)); } catch { /* no room: a reload runs it again */ }
      await show();
    } catch (error) { say(`The run failed: ${error.message}`, "bad"); }
    bar.hidden = true;
  }
  const link = (each) => el("a", { dir: "auto", href: write({ ...state, view: "", text: each.text ?? "", namespace: each.namespace ?? "" }) }, each.text ?? each.id);
  async function show() {
    const values = done?.key === key ? done.values : null;
    const name = metric.value;
    let order = set.queries.map((each) => each.id);
    figures.replaceChildren();
    if (values) {
      const mean = (of) => { const all = Object.values(of); return all.reduce((sum, each) => sum + each, 0) / (all.length || 1); };
      if (values.length > 1) {
        const pairs = await Promise.all(values.slice(1).map((second) => post("compare-runs", { first: values[0], second, metric: name })));
        order = pairs[0].queries.map((each) => each.query_id);
        figures.append(...pairs.map((pair, at) => el("section", {}, el("h2", {}, `${LETTERS[at + 1].toUpperCase()} against A: ${pair.verdict === "undecided" ? "neither is shown to be better" : `${LETTERS[at + 1].toUpperCase()} is ${pair.verdict}`} by ${name}`),
          table(["metric", { name: "A", number: true }, { name: LETTERS[at + 1].toUpperCase(), number: true }, { name: ["difference", el("div", {}, "95 % interval")], number: true }], Object.entries(pair.means).map(([each, one]) => [el("span", { class: "name" }, each), fixed(one.first), fixed(one.second), [fixed(one.difference), el("div", { class: "quiet" }, `${fixed(one.low)} to ${fixed(one.high)}`)]])),
          el("p", { class: "quiet" }, `${pair.sign_test.wins} queries better, ${pair.sign_test.losses} worse, ${pair.sign_test.ties} equal.`))));
      } else figures.append(table(["metric", { name: "A", number: true }], METRICS.map((each) => [each, fixed(mean(values[0][each]))])));
      if (values.length === 1) order = Object.entries(values[0][name]).sort((one, other) => one[1] - other[1]).map(([id]) => id);
    }
    if (values && judged.length < set.queries.length) figures.append(el("p", { class: "quiet" }, `${set.queries.length - judged.length} queries without a relevant document are left out.`));
    const known = new Map(set.queries.map((each) => [each.id, each]));
    const heads = ["query", { name: "namespace", class: "wide-only" }, { name: "judged", number: true }, ...(values ?? []).map((_, at) => ({ name: LETTERS[at].toUpperCase(), number: true })), ...(values?.length > 1 ? [{ name: "B − A", number: true }] : [])];
    rows.replaceChildren(table(heads, order.map((id) => {
      const each = known.get(id), own = (values ?? []).map((of) => of[name][id]);
      const by = own[1] - own[0];
      return [link(each), each.namespace ?? "", each.judged, ...own.map((one) => fixed(one)), ...(own.length > 1 ? [el("span", { class: by > 0 ? "up" : by < 0 ? "down" : "quiet" }, `${by > 0 ? "+" : ""}${fixed(by)}`)] : [])];
    })));
  }
  const tuned = el("div", { role: "status" }), wanted = el("input", { id: "wanted", value: "fuse", size: "24" });
  async function tune() {
    try {
      let now = await post("tune", { column: state.columns[0], wanted: wanted.value.split(/[\s]+/).filter(Boolean), metric: metric.value });
      while (now.state === "recording" || now.state === "tuning") {
        tuned.replaceChildren(now.state === "recording" ? "Asking the judged queries …" : `${now.tried} settings tried …`);
        await new Promise((wake) => setTimeout(wake, 400));
        now = await get("tuning");
      }
      if (now.state === "failed") throw new Error(now.error);
      const mean = now.means[now.metric];
      tuned.replaceChildren(el("div", { class: "only" }, el("p", {}, el("b", {}, now.verdict)), table([now.metric, { name: "as it is", number: true }, { name: "tuned", number: true }, { name: "95 % interval of the difference", number: true }], [[`${now.judged_on} held-out queries`, fixed(mean.first), fixed(mean.second), `${fixed(mean.low)} to ${fixed(mean.high)}`]]),
        el("ul", {}, now.values.map((each) => el("li", {}, `${each.path}: ${each.value}`))), now.values.length ? el("pre", {}, now.yaml) : null,
        now.values.length ? button("Compare it as column B", () => page.columnB({ ...state.columns[0], overrides: now.overrides }), { class: "main" }) : null));
    } catch (error) { tuned.replaceChildren(el("p", { class: "bad" }, error.message)); }
  }
  await show();
  if (!set.queries.length) return el("div", {}, empty("No query set yet", "Grade a result with the keys 0 to 3: its query is added here. Or start the console with --queries and --judgements.", el("p", { class: "quiet code" }, set.qrels)));
  return el("div", {}, el("div", { class: "head" }, el("h2", {}, "Query set"), el("span", { class: "quiet" }, `${set.queries.length} queries, ${judged.length} with a relevant document, ${set.judged} judgements in `, el("span", { class: "code" }, set.qrels))),
    el("div", { class: "toolbar" }, button(state.columns.length > 1 ? "Run and compare" : "Run", run, { class: "main", disabled: !judged.length, id: "run" }), el("label", { for: "metric" }, "Metric"), metric), bar, figures,
    el("form", { class: "toolbar", onsubmit: (event) => { event.preventDefault(); tune(); } }, el("label", { for: "wanted" }, "Tune in A"), wanted, el("button", { disabled: judged.length < 2, title: "Stages or parameters, such as: fuse coverage.weight" }, "Tune")), tuned, rows);
}
