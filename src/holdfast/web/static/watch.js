// The live view: asks what changed, filters, orders, and shows one run in detail.

import { get } from "./api.js";
import { curves, look } from "./charts.js";
import { Detail } from "./detail.js";
import { element, html } from "./marks.js";

const SIGNS = { done: "✓", running: "▶", begun: "○", failed: "✕" };
const PAUSE = 1000;
const FILTERS = ["rule", "attack", "rate", "state"];
const by = (id) => document.getElementById(id);
const text = new Intl.Collator("en", { numeric: true });

const rows = new Map(); // key -> row
const nodes = new Map(); // key -> list item
const detail = new Detail(by("detail"));
let [epoch, version, chosen, placed] = ["", 0, null, []];
let shown = [];

// What is asked for stands in the address.
function wanted() {
  const words = { find: by("find").value.trim().toLowerCase(), order: by("order").value };
  for (const name of FILTERS) words[name] = by(name).value;
  return words;
}

function remember() {
  const words = new URLSearchParams(Object.entries({ ...wanted(), run: chosen ?? "" }).filter(([, value]) => value && value !== "name"));
  history.replaceState(null, "", words.size ? `#${words}` : location.pathname);
}

const first = new URLSearchParams(location.hash.slice(1));

// The list.
function options() {
  for (const name of FILTERS) {
    const many = new Map();
    for (const row of rows.values()) many.set(`${row[name]}`, (many.get(`${row[name]}`) ?? 0) + 1);
    const list = by(name);
    const now = list.value || first.get(name) || "";
    first.delete(name); // what the address asks for, it asks for once
    const made = [...many].sort(([a], [b]) => text.compare(a, b)).map(([value, count]) => html("option", { value }, `${value} (${count})`));
    if (now && !many.has(now)) made.push(html("option", { value: now }, `${now} (0)`));
    list.replaceChildren(html("option", { value: "" }, "all"), ...made);
    list.value = now;
  }
}

function chosenRows() {
  const asked = wanted();
  const found = [...rows.values()].filter((row) => FILTERS.every((name) => !asked[name] || `${row[name]}` === asked[name]));
  const words = asked.find.split(/\s+/).filter(Boolean);
  const all = (row) => `${row.rule} ${row.attack} ${row.data} ${row.split} seed ${row.seed} ${row.key} ${row.state} ${row.why}`.toLowerCase();
  const some = words.length ? found.filter((row) => words.every((word) => all(row).includes(word))) : found;
  const low = (value, otherwise) => value ?? otherwise;
  const orders = {
    name: (a, b) => text.compare(a.rule, b.rule) || text.compare(a.attack, b.attack) || a.rate - b.rate || a.seed - b.seed || text.compare(a.key, b.key),
    news: (a, b) => b.changed - a.changed,
    accuracy: (a, b) => low(a.accuracy, 2) - low(b.accuracy, 2),
    best: (a, b) => low(b.accuracy, -1) - low(a.accuracy, -1),
    gap: (a, b) => gap(a) - gap(b),
  };
  return some.sort(orders[asked.order] ?? orders.name);
}

const gap = (row) => (row.paper && row.accuracy !== null ? row.accuracy - row.paper.accuracy : 9);

function item(row) {
  const spark = element("svg", { viewBox: "0 0 84 24", "aria-hidden": "true", preserveAspectRatio: "none" });
  const at = ([x, y]) => `${(84 * x) / row.of},${(22 - 20 * y).toFixed(1)}`;
  if (row.paper) spark.append(element("path", { class: "theirs", d: `M0,${22 - 20 * row.paper.accuracy}H84` }));
  if (row.curve.length) spark.append(element("path", { class: "spark", d: `M${row.curve.map(at).join("L")}` }));
  const share = (x, digits = 3) => (x === null || x === undefined ? "–" : x.toFixed(digits));
  const cells = [
    html("span", { class: `state-${row.state}`, title: row.why || row.state }, SIGNS[row.state] ?? "?", html("span", { class: "hidden" }, `${row.state} `)),
    html("span", { title: row.rule }, row.rule),
    html("span", { title: row.attack }, row.attack),
    html("span", { class: "right" }, share(row.rate, 2)),
    html("span", { class: "right" }, row.seed),
    spark,
    html("span", { class: "right" }, share(row.accuracy)),
    html("span", { class: "right soft" }, row.paper ? share(row.paper.accuracy, 2) : ""),
    html("span", { class: "right" }, row.state === "failed" ? "failed" : `${row.done}/${row.of}`),
  ];
  const button = html("button", { type: "button", class: "run", "data-key": row.key, "aria-pressed": String(row.key === chosen), tabindex: -1 }, ...cells);
  return html("li", {}, button);
}

function list() {
  shown = chosenRows();
  const wantedNodes = shown.map((row) => nodes.get(row.key) ?? nodes.set(row.key, item(row)).get(row.key));
  const box = by("runs");
  if (wantedNodes.length !== box.children.length || wantedNodes.some((node, k) => box.children[k] !== node)) {
    const held = document.activeElement?.dataset?.key;
    box.replaceChildren(...wantedNodes);
    if (held) nodes.get(held)?.firstChild.focus({ preventScroll: true });
  }
  const stop = box.querySelector("[tabindex='0']") ?? box.querySelector("[aria-pressed=true]") ?? box.querySelector(".run");
  if (stop) stop.tabIndex = 0;
  draw();
}

// A rule's colour is the same whenever it comes: the usual ones first, then as the catalogue has them, then by their letters.
const USUAL = ["Average", "MeanwO", "Krum", "Mean2P", "CWTM", "GeometricMedian", "CenterwO", "Cent2P"];
const colours = new Map();
let names = USUAL;
function colour(rule) {
  const at = names.indexOf(rule);
  return at >= 0 ? at : names.length + [...rule].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 1009, 7);
}

function draw() {
  for (const row of rows.values()) if (!colours.has(row.rule)) colours.set(row.rule, colour(row.rule));
  placed = curves(by("curves"), shown, colours, chosen);
  const papers = shown.some((row) => row.paper) ? "; faint dashes are the paper's numbers" : "";
  by("counted").textContent = `Accuracy over the rounds of ${shown.length} of ${rows.size} runs${papers}.`;
  by("curves").setAttribute("aria-label", by("counted").textContent);
  const used = new Set(shown.map((row) => row.rule));
  const key = [...colours].filter(([rule]) => used.has(rule)).slice(0, 24);
  by("keyed").replaceChildren(
    ...key.map(([rule, k]) => html("li", {}, element("svg", { viewBox: "0 0 24 10", "aria-hidden": "true" }, element("path", { class: `c${k % 8}`, d: "M0 5H24", "stroke-dasharray": look(k).dash.join(" ") || undefined })), rule)),
  );
}

function states() {
  const many = new Map(Object.keys(SIGNS).map((name) => [name, 0]));
  for (const row of rows.values()) many.set(row.state, (many.get(row.state) ?? 0) + 1);
  by("states").replaceChildren(...[...many].filter(([, count]) => count).map(([name, count]) => html("li", { class: `state-${name}` }, `${SIGNS[name] ?? "?"} ${count} ${name}`)));
}

function choose(key, focus = false) {
  first.delete("run");
  const before = nodes.get(chosen)?.firstChild;
  before?.setAttribute("aria-pressed", "false");
  chosen = key;
  const now = nodes.get(key)?.firstChild;
  for (const one of by("runs").querySelectorAll("[tabindex='0']")) one.tabIndex = -1;
  if (now) {
    now.setAttribute("aria-pressed", "true");
    now.tabIndex = 0;
    if (focus) now.focus();
  }
  void detail.show(rows.get(key));
  draw();
  remember();
}

// Asking.
async function refresh() {
  const found = await get(`/api/runs?since=${version}&epoch=${epoch}`);
  if (found.epoch !== epoch) {
    rows.clear();
    nodes.clear();
  }
  const fresh = found.epoch !== epoch || found.rows.length || found.gone.length;
  [epoch, version] = [found.epoch, found.version];
  for (const key of found.gone) {
    rows.delete(key);
    nodes.delete(key);
  }
  for (const row of found.rows) {
    rows.set(row.key, row);
    const made = item(row);
    const old = nodes.get(row.key);
    if (old?.isConnected) {
      made.firstChild.tabIndex = old.firstChild.tabIndex;
      const held = document.activeElement === old.firstChild;
      old.replaceWith(made);
      if (held) made.firstChild.focus({ preventScroll: true });
    }
    nodes.set(row.key, made);
  }
  if (fresh) {
    options();
    states();
    list();
    if (chosen && (found.gone.includes(chosen) || found.rows.some((row) => row.key === chosen))) void detail.show(rows.get(chosen));
  }
  const asked = first.get("run");
  if (asked && rows.has(asked)) {
    choose(asked);
  }
  const none = !found.there ? "The folder is not there; its runs will appear once it is." : rows.size ? "" : "There are no runs yet.";
  by("note").textContent = found.scanning ? `Reading the store, ${found.total} runs so far.` : none;
  complain(found.complaints, found.unread);
  return found.scanning;
}

function complain(texts, many) {
  const box = by("complaints");
  box.hidden = !texts.length;
  if (box.dataset.said === many + texts.join()) return;
  box.dataset.said = many + texts.join();
  box.firstElementChild.textContent = `${many} could not be read${many > texts.length ? `, the first ${texts.length} of them` : ""}`;
  box.lastElementChild.replaceChildren(...texts.map((one) => html("li", {}, one)));
}

async function forever() {
  let pause = PAUSE;
  for (;;) {
    try {
      pause = (await refresh()) ? 60 : document.hidden ? 4 * PAUSE : PAUSE;
    } catch (error) {
      by("note").textContent = `The server cannot be reached (${error.message}); trying again.`;
      pause = 2 * PAUSE;
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}

// Pressing.
for (const name of [...FILTERS, "order"]) by(name).addEventListener("change", () => (list(), remember()));
by("find").addEventListener("input", () => (list(), remember()));
by("find").value = first.get("find") ?? "";
by("order").value = first.get("order") ?? "name";
if (!by("order").value) by("order").value = "name";
by("runs").addEventListener("click", (event) => {
  const run = event.target.closest(".run");
  if (run) choose(run.dataset.key);
});
by("runs").addEventListener("keydown", (event) => {
  const at = shown.findIndex((row) => row.key === document.activeElement?.dataset?.key);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 12, PageUp: at - 12, Home: 0, End: shown.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  choose(shown[Math.max(0, Math.min(shown.length - 1, to))].key, true);
});
by("curves").addEventListener("click", (event) => {
  const near = nearest(event);
  if (near) choose(near.row.key);
});
by("curves").addEventListener("pointermove", (event) => {
  const near = nearest(event);
  by("curves").title = near ? `${near.row.rule} under ${near.row.attack}, seed ${near.row.seed}` : "";
  by("counted").dataset.near = near ? ` – ${by("curves").title}` : "";
});
new ResizeObserver(() => draw()).observe(by("curves"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (draw(), detail.draw()));

function nearest(event) {
  const box = by("curves").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let best = null;
  for (const one of placed) {
    for (let k = 0; k < one.points.length; k++) {
      const away = between(one.points[Math.max(0, k - 1)], one.points[k], x, y);
      if (away < (best?.away ?? 12)) best = { ...one, away };
    }
  }
  return best;
}

function between([x1, y1], [x2, y2], x, y) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const share = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x1 - share * dx, y - y1 - share * dy);
}

try {
  const about = await get("/api/about");
  names = [...new Set([...USUAL, ...about.names])];
  by("store").textContent = about.store ? `watches ${about.store}` : "runs";
  if (about.store) void forever();
  else by("note").textContent = "No folder is being watched; start the server by holdfast watch FOLDER.";
} catch (error) {
  by("note").textContent = `The server cannot be reached (${error.message}).`;
}
