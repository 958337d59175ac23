// The first page: what is indexed, example queries, health, recent queries.
import { get } from "./api.js";
import { el, empty, fixed, table } from "./dom.js";
import { recent, write } from "./state.js";
const link = (state, text, namespace) => el("a", { class: "chip", dir: "auto", href: write({ ...state, view: "", panel: "", text, namespace: namespace ?? "" }) }, text, namespace ? el("span", { class: "quiet" }, ` ${namespace}`) : null);
export function overview(state, names) {
  const health = el("ul", { class: "health", "aria-label": "Health" }, el("li", { class: "quiet" }, "Asking the backends …"));
  const index = el("div", {}, el("p", { class: "quiet" }, "Reading the index …"));
  const examples = el("div", {});
  get("health").then(({ backends }) => health.replaceChildren(...backends.map((each) => el("li", { title: each.remedy }, el("b", { class: each.level === "ok" ? "good" : each.level === "error" ? "bad" : "warn" }, `${each.level === "ok" ? "✓" : "!"} ${each.subject} `), el("span", { class: "quiet" }, each.what))))).catch((error) => health.replaceChildren(el("li", { class: "bad" }, error.message)));
  get("overview").then((found) => {
    examples.replaceChildren(...(found.examples.length ? [el("h2", {}, "Try one of these"), el("ul", { class: "chips" }, found.examples.map((each) => el("li", {}, link(state, each.text, each.namespace))))] : []));
    names(found.collections.flatMap((one) => one.namespaces.map((each) => each.name)));
    index.replaceChildren(...(found.error ? [empty("The index can't be read from here", found.error, el("p", {}, "Searches work all the same: write the namespace into the field beside the search."))] : found.in_use ? [empty("The running flow has the index open", "So this page shows no fields and no numbers. Search above: the flow answers, and Fields above the results lists the fields of the documents found. If your documents have a namespace, write it into the field beside the search.")] : found.collections.map(collection)));
  }).catch((error) => index.replaceChildren(empty("The index can't be read", error.message)));
  function collection(one) {
    if (one.error) return empty(`Collection ${one.name}`, one.error);
    if (!one.points) return empty(`${one.name} is empty`, "No document is indexed yet. Send documents to the documents topic, or run rankstream index.");
    const when = one.last ? new Date(one.last).toLocaleString() : "unknown";
    return el("section", {}, el("h2", {}, one.name, el("span", { class: "quiet" }, ` ${one.destinations.join(", ")}`)),
      el("div", { class: "facts" }, el("div", {}, el("b", {}, one.points.toLocaleString()), "documents"), el("div", {}, el("b", {}, String(one.namespaces.length)), "namespaces"), el("div", {}, el("b", {}, one.languages.length ? String(one.languages.length) : "–"), one.languages.length ? one.languages.map((each) => each.name).join(" ") : "languages"), el("div", {}, el("b", {}, when), "last document")),
      one.namespaces.length ? table(["namespace", { name: "documents", number: true }], one.namespaces.slice(0, 20).map((each) => [each.name, each.count.toLocaleString()])) : null,
      el("h3", {}, "Fields"), table(["field", { name: "in", number: true }, "examples"], one.fields.map((each) => [el("span", {}, el("b", {}, each.name), each.indexed ? el("span", { class: "quiet" }, " indexed") : null), `${fixed(each.share * 100, 0)} %`, el("span", { class: "quiet", dir: "auto" }, each.examples.join(" · "))])));
  }
  const late = recent();
  return el("div", {}, health, el("div", { class: "overview" }, el("div", {}, index), el("div", {}, el("section", {}, examples),
    el("section", {}, el("h2", {}, "Recent queries"), late.length ? el("ul", { class: "chips" }, late.map((each) => el("li", {}, link(state, each.text, each.namespace)))) : el("p", { class: "quiet" }, "You have not searched yet.")),
    el("section", {}, el("h2", {}, "What you can do here"), el("ul", {}, ["Open why below a result: the score from the legs to the end.", "Add a column: another recipe, profile or configuration beside the first.", "Move a parameter: the candidates are ranked again at once.", "Grade results with the keys 0 to 3, and run a query set over both columns."].map((each) => el("li", {}, each)))))));
}
