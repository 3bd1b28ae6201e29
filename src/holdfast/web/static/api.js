// What the pages ask the server for. A refusal is an Error whose message is the server's sentence.

export async function get(path) {
  return told(await fetch(path, { headers: { accept: "application/json" } }));
}

export async function post(path, body) {
  const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return told(await fetch(path, sent));
}

async function told(response) {
  const found = await response.json().catch(() => ({ error: `the server answered ${response.status}.` }));
  if (!response.ok) throw Object.assign(new Error(found.error ?? `the server answered ${response.status}.`), { status: response.status });
  return found;
}
