// What the pages ask the server for. A refusal is an Error whose message is the server's sentence.

export async function get(path) {
  return told(await fetch(path, { headers: { accept: "application/json" } }));
}

// What is not done yet, questions and writes: the root element says so, and programs that drive the page can wait.
let open = 0;
export function pending(change = 1) {
  open += change;
  document.documentElement.toggleAttribute("data-pending", open > 0);
}

// A server that is busy is asked again, a few times.
export async function post(path, body) {
  pending();
  try {
    return await posted(path, body, 6);
  } finally {
    pending(-1);
  }
}

async function posted(path, body, tries) {
  const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, sent);
  if (response.status !== 503 || !tries) return told(response);
  await new Promise((done) => setTimeout(done, 300));
  return posted(path, body, tries - 1);
}

async function told(response) {
  const found = await response.json().catch(() => ({ error: `the server answered ${response.status}.` }));
  if (!response.ok) throw new Error(found.error ?? `the server answered ${response.status}.`);
  return found;
}
