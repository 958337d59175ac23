// The state of the page is its address: each view has a link. Columns are a, b and c.
export const LETTERS = ["a", "b", "c"];
const LIKE = ["like", "unlike"];
export function readState() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const columns = LETTERS.filter((letter) => letter === "a" || asked.has(letter)).map((letter) => {
    const parsed = (name) => { try { return JSON.parse(asked.get(`${letter}.${name}`) ?? "{}"); } catch { /* a link that was cut */ return {}; } };
    const least = asked.get(`${letter}.min_relevance`);
    return { recipe: asked.get(letter) ?? "", profile: asked.get(`${letter}.profile`) ?? "", config: asked.get(`${letter}.config`) ?? "",
      overrides: parsed("overrides"), rules: parsed("rules"), rerank: asked.get(`${letter}.rerank`) !== "false", min_relevance: least === null || least === "" ? null : Number(least) };
  });
  const pairs = (name) => asked.getAll(name).flatMap((text) => { try { const [field, value] = JSON.parse(text); return [[field, value]]; } catch { return []; } });
  return { filters: pairs("filter"), like: pairs("like").filter(([how, id]) => LIKE.includes(how) && typeof id === "string"), view: asked.get("view") ?? "", text: asked.get("text") ?? "", namespace: asked.get("namespace") ?? "", limit: Number(asked.get("limit")) || 10,
    panel: asked.get("panel") ?? "", of: Math.min(Number(asked.get("of")) || 0, columns.length - 1), id: asked.getAll("id"), fields: asked.get("fields")?.split(",").filter(Boolean) ?? null, columns };
}
export function write(state) {
  const asked = new URLSearchParams();
  for (const name of ["view", "text", "namespace", "panel"]) if (state[name]) asked.set(name, state[name]);
  for (const each of state.filters) asked.append("filter", JSON.stringify(each));
  for (const each of state.like) asked.append("like", JSON.stringify(each));
  if (state.limit !== 10) asked.set("limit", state.limit);
  if (state.of && state.panel) asked.set("of", state.of);
  if (state.panel) state.id.forEach((id) => asked.append("id", id));
  if (state.fields) asked.set("fields", state.fields.join(",") || ",");
  state.columns.forEach((column, at) => {
    const letter = LETTERS[at];
    if (at || column.recipe) asked.set(letter, column.recipe);
    if (column.profile) asked.set(`${letter}.profile`, column.profile);
    if (column.config) asked.set(`${letter}.config`, column.config);
    if (Object.keys(column.overrides).length) asked.set(`${letter}.overrides`, JSON.stringify(column.overrides));
    if (Object.keys(column.rules).length) asked.set(`${letter}.rules`, JSON.stringify(column.rules));
    if (!column.rerank) asked.set(`${letter}.rerank`, "false");
    if (column.min_relevance !== null) asked.set(`${letter}.min_relevance`, column.min_relevance);
  });
  return `#${asked}`;
}
export const go = (changes) => { location.hash = write({ ...readState(), ...changes }); };
export const replace = (changes) => history.replaceState(null, "", write({ ...readState(), ...changes }));
const RECENT = "rankstream-recent";
export function recent() { try { return JSON.parse(localStorage.getItem(RECENT) ?? "[]"); } catch { return []; } }
export function remember(text, namespace) {
  const others = recent().filter((each) => each.text !== text || each.namespace !== namespace);
  localStorage.setItem(RECENT, JSON.stringify([{ text, namespace }, ...others].slice(0, 8)));
}
