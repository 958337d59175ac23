// Parameters of a recipe as sliders and fields: each change ranks the recorded pool again.
import { post } from "./api.js";
import { button, el, say } from "./dom.js";
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
export async function parameters(page, state) {
  const at = state.of, column = state.columns[at];
  const { stages, plain } = await post("parameters", column);
  const first = new Map(plain.flatMap((each) => each.parameters.map((one) => [`${each.stage}.${one.name}`, one])));
  function change(stage, name, value) {
    const now = page.state().columns[at];
    const overrides = structuredClone(now.overrides);
    const own = first.get(`${stage}.${name}`)?.value;
    if (!stage) { if (same(value, own)) delete overrides[name]; else overrides[name] = value; }
    else {
      overrides[stage] = { ...overrides[stage] };
      if (same(value, own)) delete overrides[stage][name]; else overrides[stage][name] = value;
      if (!Object.keys(overrides[stage]).length) delete overrides[stage];
    }
    apply({ overrides });
  }
  const [id] = state.id, watched = el("div", { class: "only", role: "status" });
  let looking = false, later = false;
  const apply = (changes) => page.change(at, changes).then(watch);
  // The document that is missing, after each change; while an answer is awaited, further changes wait for one look.
  async function watch() {
    if (!id || looking) { later = true; return; }
    looking = true; later = false;
    try { const found = await post("why", { key: page.columns[at].key, id }); watched.replaceChildren(el("b", { dir: "auto" }, found.title ?? id), el("p", {}, found.verdict)); } catch (error) { watched.replaceChildren(el("p", { class: "bad" }, error.message)); }
    looking = false;
    if (later) await watch();
  }
  watch();
  const controls = stages.map((each) => el("section", {}, el("h3", {}, each.stage || "recipe"), el("p", { class: "quiet" }, each.about), each.parameters.map((one) => control(each.stage, one))));
  function control(stage, one) {
    const id = `p-${stage}-${one.name}`, before = first.get(`${stage}.${one.name}`);
    const box = el("div", { class: "control" }, el("label", { for: id }, one.name.replaceAll("_", " ")));
    const note = (value) => { box.classList.toggle("changed", !same(value, before?.value)); change(stage, one.name, value); };
    box.classList.toggle("changed", !same(one.value, before?.value));
    if (one.kind === "number" || one.kind === "integer") box.append(...numbers(id, one, note));
    else if (one.kind === "boolean") box.append(el("input", { id, type: "checkbox", checked: one.value, onchange: (event) => note(event.target.checked) }));
    else if (one.kind === "choice") box.append(el("select", { id, onchange: (event) => note(one.choices.find((each) => String(each) === event.target.value) ?? null) }, one.nullable ? el("option", { value: "" }, "none") : null, one.choices.map((each) => el("option", { value: String(each), selected: each === one.value }, String(each)))));
    else if (one.kind === "mapping" && one.keys.length) {
      box.append(el("span", {}));
      const weights = Object.fromEntries(one.keys.map((key) => [key.name, key.value]));
      for (const key of one.keys) box.append(el("div", { class: "part" }, el("label", { for: `${id}-${key.name}`, class: "quiet" }, key.name), ...numbers(`${id}-${key.name}`, { ...one, value: key.value, high: Math.max(2, key.value * 4), nullable: false, kind: "number" }, (value) => { weights[key.name] = value; note(Object.fromEntries(Object.entries(weights).filter(([, each]) => each !== 0))); })));
    } else box.append(el("span", { class: "quiet", id }, one.value === null ? "default" : String(one.value)));
    box.append(el("p", { class: "about quiet" }, `${one.about ?? ""}${Math.max(Math.abs(one.least ?? Infinity), Math.abs(one.greatest ?? Infinity)) < 1e6 ? ` From ${one.least} to ${one.greatest}.` : ""}`));
    return box;
  }
  function numbers(id, one, note) {
    const value = one.value ?? "";
    const field = el("input", { id, type: "number", step: "any", value: String(value), min: one.least ?? null, max: one.greatest ?? null, placeholder: one.nullable ? "default" : "" });
    const slider = el("input", { type: "range", class: one.value === null ? "unset" : null, min: String(one.low), max: String(one.high), step: String(one.step), value: String(one.value ?? (one.low + one.high) / 2), "aria-label": `${id.replace("p-", "").replaceAll("-", " ")} slider` });
    slider.addEventListener("input", () => { slider.className = ""; field.value = slider.value; note(Number(slider.value)); });
    field.addEventListener("change", () => { slider.className = field.value === "" ? "unset" : ""; if (field.value !== "") slider.value = field.value; note(field.value === "" && one.nullable ? null : Number(field.value)); });
    return [field, slider];
  }
  const least = { value: column.min_relevance ?? null, nullable: true, low: 0, high: 1, step: 0.01, least: 0, greatest: 1, kind: "number" };
  const query = el("section", {}, el("h3", {}, "query"),
    el("div", { class: "control" }, el("label", { for: "p-min" }, "min relevance"), ...numbers("p-min", least, (value) => apply({ min_relevance: value })), el("p", { class: "about quiet" }, "Leave out what has less relevance.")),
    el("div", { class: "control" }, el("label", { for: "p-rerank" }, "rerank"), el("input", { id: "p-rerank", type: "checkbox", checked: column.rerank, onchange: (event) => apply({ rerank: event.target.checked }) }), el("p", { class: "about quiet" }, "Off: no model is asked; the other stages run.")));
  const preview = el("pre", { tabindex: "0", "aria-label": "Written form", hidden: true });
  async function copy(form, name) {
    const now = page.state();
    const search = { text: now.text, ...(now.namespace ? { namespace: now.namespace } : {}), limit: now.limit };
    try {
      const forms = await post("write", { column: now.columns[at], search });
      preview.hidden = false; preview.textContent = forms[form];
      await navigator.clipboard?.writeText(forms[form]).then(() => say(`Copied as ${name}.`), () => say(`${name} is in the panel.`));
    } catch (error) { say(error.message, "bad"); }
  }
  return [`Parameters of ${["A", "B", "C"][at]}`,
    el("div", { class: "toolbar" }, button("Copy as YAML", () => copy("yaml", "YAML")), button("Copy as query event", () => copy("event", "a query event")), button("Copy as producer", () => copy("producer", "a producer")),
      button("Reset", () => { page.change(at, { overrides: {}, min_relevance: null, rerank: true }); page.reopen(); }), button("Ask the flow", () => page.search(), { title: "Send the query with these parameters" })),
    preview, id ? watched : null, query, controls];
}
