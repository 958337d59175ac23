// Rules: those of the topic in words, and one that is written, tried beside those in force, put or deleted.
import { get, post } from "./api.js";
import { button, el, empty, say, table } from "./dom.js";
import { go } from "./state.js";
const FIRST = { when: { contains: "" }, then: { pin: [{ id: "", position: 1 }] } };
const DELETED = '{"then": null}';
let kept = null;
export async function rules(page) {
  const state = page.state(), found = await get("rules");
  const written = kept ?? { namespace: state.namespace, id: "", text: JSON.stringify(FIRST, null, 2) };
  const field = (name, value, options = {}) => el("input", { id: `rule-${name}`, value, autocomplete: "off", oninput: keep, ...options });
  const namespace = field("namespace", written.namespace, { placeholder: "* for all" }), id = field("id", written.id);
  const query = field("query", state.text, { type: "search" });
  const wrong = el("p", { id: "rule-wrong", class: "bad", role: "alert" }), words = el("p", { class: "quiet", role: "status" });
  const text = el("textarea", { id: "rule-text", class: "code", rows: "12", spellcheck: "false", "aria-describedby": "rule-wrong", oninput: keep }, written.text);
  // What is written stays while one looks at the results.
  function keep() { kept = { namespace: namespace.value, id: id.value, text: text.value }; }
  const send = (name, rule = text.value) => post(name, { namespace: namespace.value, id: id.value, text: rule });
  async function attempt(work) {
    wrong.textContent = ""; words.textContent = ""; text.removeAttribute("aria-invalid");
    try { await work(); } catch (error) {
      wrong.textContent = error.message;
      text.setAttribute("aria-invalid", "true");
      point(error.message);
    }
  }
  // The last name of the path in `then.pin.0.position: …` is selected in the text.
  function point(message) {
    const name = (/^[\w.]+(?=: )/.exec(message)?.[0] ?? "").split(".").filter((each) => each && Number.isNaN(Number(each))).pop();
    const at = name ? text.value.indexOf(`"${name}"`) : -1;
    if (at >= 0) { text.focus(); text.setSelectionRange(at, at + name.length + 2); }
  }
  const inWords = (rule) => `If ${rule.when.join(", ")}: ${rule.then.join("; ")}.`;
  const check = () => attempt(async () => { words.textContent = inWords(await send("check-rule")); });
  const attemptTrial = () => attempt(async () => {
    if (!query.value.trim()) { words.textContent = "Write the query to try it with."; query.focus(); return; }
    const { rule } = await send("check-rule"), [first] = state.columns, plain = { ...first, rules: {} };
    go({ view: "", text: query.value, namespace: namespace.value === "*" ? state.namespace : namespace.value, columns: [plain, { ...plain, rules: { [id.value]: rule } }] });
  });
  const put = (rule) => attempt(async () => {
    const { removed } = await send("put-rule", rule);
    kept = null;
    await again();
    say(`The rule ${id.value} was ${removed ? "deleted" : "put"}: it is so for queries in about two seconds.`);
  });
  const list = el("div", {});
  async function again() { show(await get("rules")); }
  function edit(each) {
    namespace.value = each.namespace; id.value = each.id; text.value = JSON.stringify(each.rule, null, 2);
    keep(); check(); text.focus();
  }
  function show({ topic, rules: all, refused }) {
    const shown = all.filter((each) => !state.namespace || each.namespace === state.namespace || each.namespace === "*");
    const rows = shown.slice(0, 500).map((each) => [each.namespace, button(each.id, () => edit(each), { class: "plain code", "aria-label": `Edit the rule ${each.id} of ${each.namespace}` }), each.when.join(", "), each.then.join("; ")]);
    const count = `The topic ${topic} has ${all.length} rules. Shown: ${shown.length}${shown.length > 500 ? ", the first 500 here" : ""}${state.namespace ? `, those for ${state.namespace}` : ""}`;
    list.replaceChildren(...[el("p", { class: "quiet" }, count), rows.length ? table(["namespace", "rule", "if", "then"], rows) : empty("No rules yet", "Write one above."),
      refused.length ? el("section", { class: "warning" }, el("h3", {}, "Records that are no rules"), el("ul", {}, refused.map((each) => el("li", {}, each)))) : null].filter(Boolean));
  }
  if (!found.topic) return empty("There are no rules", "kafka.topics.rules is not set: name a compacted topic there.");
  show(found);
  return el("div", {}, el("h2", {}, "Rules"),
    el("form", { class: "rule", onsubmit: (event) => { event.preventDefault(); check(); } },
      el("div", { class: "toolbar" }, el("label", { for: "rule-namespace" }, "Namespace"), namespace, el("label", { for: "rule-id" }, "Id"), id),
      el("label", { for: "rule-text" }, "Conditions and effects, as JSON"), text, wrong, words,
      el("div", { class: "toolbar" }, el("button", {}, "Check"), el("label", { for: "rule-query" }, "Query"), query, button("Try", attemptTrial, { class: "main", id: "rule-try" }),
        button("Put", () => put(text.value), { id: "rule-put" }), button("Delete", () => put(DELETED), { id: "rule-delete" })),
      el("p", { class: "quiet" }, "Try sends the query twice: with the rules in force, and with this rule, too. It does not put the rule. Rules can also be put from the command line: rankstream rules put.")),
    list);
}
