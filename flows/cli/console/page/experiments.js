// Experiments: of each that is configured the verdict so far, the preference with its interval, and the votes.
import { get } from "./api.js";
import { el, empty, fixed, table } from "./dom.js";
const VOTES = { wins: "for b", losses: "for a", ties: "ties", silent: "no click" };
export async function experiments() {
  const { reports } = await get("experiments");
  if (!reports.length) return empty("There are no experiments", "experiments is not set: name one there, with its recipe.");
  return el("div", {}, el("h2", {}, "Experiments"), el("div", { class: "falls" }, reports.map(section)));
}
function section(report) {
  const [standing, ...lines] = report.lines, heard = report.standing && report.standing !== "shadow" ? [["all", report], ...Object.entries(report.namespaces), ...Object.entries(report.kinds)] : [];
  return el("section", { "data-experiment": report.experiment }, el("h3", {}, standing), lines.map((each) => el("p", { class: "quiet" }, each)),
    heard.length ? [el("div", { class: "fall" }, el("p", { class: "words" }, "Preference for b from 0 to 1, with its interval; at the mark, .5, users prefer neither."), heard.map(interval)),
      table(["queries", ...Object.values(VOTES).map((name) => ({ name, number: true }))], heard.map(([name, votes]) => [name, ...Object.keys(VOTES).map((each) => votes[each].toLocaleString())]))] : null);
}
function interval([name, { low, high, preference }]) {
  const part = (from, to, colour) => el("i", { style: { "--from": `${100 * from}%`, "--share": `${100 * (to - from)}%`, "--part": `var(--${colour})` } });
  return el("div", { class: "row" }, el("span", { dir: "auto" }, name), el("div", { class: "lane", role: "img", "aria-label": `${fixed(low)} to ${fixed(high)}` }, part(low, high, "vector"), part(0.5, 0.5, "text")), el("span", { class: "number" }, fixed(preference)));
}
