// Requests to the console, with the token of the link that opened it.
const KEPT = "rankstream-token";
const AWAY = "The console does not answer. Is it still running?";
export function takeToken() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const token = asked.get("token");
  if (token === null) return;
  localStorage.setItem(KEPT, token);
  asked.delete("token");
  history.replaceState(null, "", `#${asked}`);
}
async function read(request) {
  let response, answer;
  try { response = await request; answer = await response.json(); } catch { throw new Error(AWAY); }
  if (!response.ok) throw new Error(answer.error);
  return answer;
}
const headers = () => ({ "content-type": "application/json", "x-rankstream-token": localStorage.getItem(KEPT) ?? "" });
export const get = (name) => read(fetch(`/api/${name}`, { headers: headers() }));
export const post = (name, body) => read(fetch(`/api/${name}`, { method: "POST", headers: headers(), body: JSON.stringify(body) }));
