// The playground: state, controls, and the question to the server after every change.

import { get, pending, post } from "./api.js";
import { html, say } from "./marks.js";
import { Plane } from "./plane.js";
import { saveSvg } from "./save.js";
import { MOST, clamped, decode, encode, fitted, withF } from "./state.js";
import { table } from "./table.js";
import { Walk } from "./walk.js";
import { election, number, sentence } from "./words.js";

const USUAL = ["Average()", "MeanwO(f=5)", "CenterwO(f=5)", "OuterMean(f=5)", "Mean2P(f=5)", "CWTM(f=5)", "GeometricMedian()"];
const by = (id) => document.getElementById(id);

let state = { points: [[0, 0]], liars: [], f: 5, rules: USUAL, chosen: 4, view: { x: 0, y: 0, half: 2 }, show: ["ball", "region", "votes"], images: 8 };
let told = null;
let story = "";
let seed = 0;
let known = []; // rules to suggest

// Asking: one question at a time; the newest state is asked as soon as the last answer is drawn.
let asking = false;
let waiting = null;
let refused = false;
let picture = 0; // counts presets and links

// While something moves, the chosen rule alone is certified; the others are when it rests.
let moving = false;
let rest = 0;

function ask(since = performance.now(), moves = false) {
  clearTimeout(rest);
  moving = moves;
  if (moves) rest = setTimeout(() => ask(), 150);
  waiting = since;
  if (!asking) void asked();
}

async function asked() {
  asking = true;
  while (waiting !== null) {
    const since = waiting;
    const of = picture;
    waiting = null;
    const { points, liars, f, rules, images } = state;
    if (points.every((point, i) => !point || liars.includes(i))) {
      blank("Nobody is honest and sends numbers; make somebody so.");
      continue;
    }
    let found;
    try {
      found = await post("/api/round", { points, liars, f, rules, images, look: moving ? state.chosen : null });
      if (refused) refuse("");
      refused = false;
    } catch (error) {
      if (waiting === null) blank(error.message);
      continue;
    }
    if (of !== picture || rules !== state.rules || points.length !== state.points.length) continue; // it is another round meanwhile
    told = found;
    state = { ...state, rules: found.answers.map((one) => one.named ?? one.rule) };
    draw();
    drawn(since);
  }
  asking = false;
}

// From the event to the picture, for whoever measures: the browser's own timeline has it.
function drawn(since) {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      performance.measure("drag to drawn", { start: since, end: performance.now() });
      if (performance.getEntriesByName("drag to drawn").length > 2000) performance.clearMeasures("drag to drawn");
      channel.port1.close();
    };
    channel.port2.postMessage(0);
  });
}

// A round that the server refuses: why, and the names alone.
function blank(said) {
  refuse(said);
  refused = true;
  told = { mean: null, answers: state.rules.map((rule) => ({ rule, error: "–" })) };
  draw();
}

function refuse(text) {
  by("toast").textContent = text;
  by("toast").className = text ? "error" : "";
}

// Telling.
const plane = new Plane(by("plane"), {
  resized: () => plane.draw(state, told),
  select: (i) => select(i),
  move: (i, at, since) => place(i, at, since),
  moved: () => keep(),
  look: (view) => look(view),
  key: (event, i) => key(event, i),
});

function draw() {
  plane.draw(state, told);
  if (!told) return;
  table(by("rules"), told.answers, state.chosen, { choose, remove: without });
  if (!moving && told.least !== undefined) say(by("least"), told.least === null ? "" : ` No answer to these points can have a κ below ${number(told.least)}, if up to ${state.f} lie.`);
  worker();
  const one = told.answers[state.chosen];
  by("said").textContent = one ? sentence(one, state, story, one.value && plane.beyond(one)) : story || "Add a rule.";
  by("vote").textContent = one ? election(one, state) : "";
}

function worker() {
  const i = plane.selected;
  const [list, point] = [by("worker"), state.points[i]];
  if (list.options.length !== state.points.length) list.replaceChildren(...state.points.map((_, k) => html("option", { value: k }, k)));
  list.value = i;
  for (const [id, at] of [["x", 0], ["y", 1]]) {
    if (document.activeElement !== by(id)) by(id).value = point ? point[at] : "";
    by(id).disabled = !point;
  }
  by("lies").checked = state.liars.includes(i);
  by("nan").checked = !point;
  by("remove").disabled = state.points.length < 2;
  for (const id of ["f", "images"]) if (document.activeElement !== by(id)) by(id).value = state[id];
}

// Changing.
let later = 0;
function keep(push = false) {
  if (later) pending(-1);
  clearTimeout(later);
  later = 0;
  const write = () => history[push ? "pushState" : "replaceState"](null, "", `#${encode(state)}`);
  if (push) return write();
  pending();
  later = setTimeout(() => {
    write();
    later = 0;
    pending(-1);
  }, 300); // once it is quiet: browsers refuse to write it often
}

function change(words, since) {
  state = { ...state, ...words };
  story = "";
  const whole = told?.answers.length === state.rules.length;
  plane.draw(state, whole && !words.points && !words.rules ? told : null, whole ? told.answers[state.chosen] : undefined);
  worker();
  ask(since, Boolean(words.points));
  keep();
}

// Another rule is looked at; all answers are there.
function choose(i) {
  state = { ...state, chosen: i };
  story = "";
  draw();
  keep();
}

function place(i, at, since) {
  const clamp = (x) => Math.max(-1e6, Math.min(1e6, x));
  change({ points: state.points.map((p, k) => (k === i ? at && at.map(clamp) : p)) }, since);
}

function select(i) {
  plane.selected = i;
  plane.points(told?.answers[state.chosen]);
  worker();
}

function look(view) {
  state = { ...state, view: clamped(view) };
  plane.draw(state, told);
  keep();
}

function turn(i) {
  const liars = state.liars.includes(i) ? state.liars.filter((k) => k !== i) : [...state.liars, i].sort((a, b) => a - b);
  change({ liars });
}

function silence(i) {
  place(i, state.points[i] ? null : [state.view.x, state.view.y]);
}

function remove(i) {
  if (state.points.length < 2) return;
  plane.release();
  plane.selected = Math.max(0, i - 1);
  const liars = state.liars.filter((k) => k !== i).map((k) => (k > i ? k - 1 : k));
  change({ points: state.points.filter((_, k) => k !== i), liars });
}

function add(lies) {
  if (state.points.length >= MOST) return refuse(`${MOST} workers are the most here; remove one first.`);
  const [angle, far] = [state.points.length * 2.4, state.view.half * 0.4]; // around the middle, never twice at one place
  const point = [state.view.x + far * Math.cos(angle), state.view.y + far * Math.sin(angle)].map((x) => +x.toFixed(3));
  const i = state.points.length;
  plane.selected = i;
  change({ points: [...state.points, point], liars: lies ? [...state.liars, i] : state.liars });
}

function without(i) {
  const rules = state.rules.filter((_, k) => k !== i);
  if (told) told = { ...told, answers: told.answers.filter((_, k) => k !== i) };
  change({ rules, chosen: Math.max(0, Math.min(state.chosen - (i < state.chosen), rules.length - 1)) });
  draw();
}

function key(event, i) {
  const far = (state.view.half / 20) * (event.shiftKey ? 5 : event.altKey ? 0.1 : 1);
  const step = +far.toPrecision(1);
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const actions = {
    PageDown: () => plane.focus((i + 1) % state.points.length),
    PageUp: () => plane.focus((i + state.points.length - 1) % state.points.length),
    Home: () => plane.focus(0),
    End: () => plane.focus(state.points.length - 1),
    Enter: () => turn(i),
    " ": () => turn(i),
    n: () => silence(i),
    Delete: () => (remove(i), plane.focus(plane.selected)),
    "+": () => look({ ...state.view, half: state.view.half / 1.25 }),
    "-": () => look({ ...state.view, half: state.view.half * 1.25 }),
    0: () => look(fitted(state.points)),
  };
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey) return;
  if (moves[name] && state.points[i]) place(i, state.points[i].map((x, k) => +(x + step * moves[name][k]).toFixed(9)), event.timeStamp);
  else if (actions[name]) actions[name]();
  else return;
  event.preventDefault();
}

// Presets and the walk.
let begun = 0;
async function begin(name) {
  walk.stop();
  const turn = (begun += 1);
  const rule = state.rules[state.chosen] ?? "MeanwO(f=4)";
  const own = name === "break" ? { n: Math.min(state.points.length, 11), f: Math.max(1, state.f) } : { seed };
  again(name);
  try {
    const found = await post("/api/preset", { name, rule, ...own });
    if (turn !== begun) return; // another was chosen meanwhile
    if (found.refused) return refuse(found.refused);
    plane.release();
    refuse("");
    story = found.said;
    picture += 1;
    plane.selected = 0;
    told = null;
    const rules = state.rules.map((text) => withF(text, found.f));
    state = { ...state, points: found.points, liars: found.liars, f: found.f, rules, view: fitted(found.points) };
    plane.draw(state, null);
    suggest();
    keep(true);
    ask();
  } catch (error) {
    if (turn === begun) refuse(error.message);
  }
}

function suggest() {
  by("known").replaceChildren(...known.map((text) => html("option", { value: text.replaceAll("{f}", state.f) })));
}

function again(name) {
  by("preset").value = name;
  by("deal").disabled = ["", "sneak", "siege", "break"].includes(name); // nothing in them is drawn
}

const walk = new Walk({
  round: () => {
    const { points, liars, f, images, rules, chosen } = state;
    return liars.length && rules[chosen] ? { points, liars, f, images, rules: [rules[chosen]], frame: plane.frame() } : null;
  },
  same: (round) => state.points === round.points && state.liars === round.liars && state.rules[state.chosen] === round.rules[0],
  moved: (points) => change({ points }),
  told: (text) => {
    story = text;
    draw();
  },
  pressed: (on) => by("walk").setAttribute("aria-pressed", String(on)),
  refuse: (text) => refuse(text),
});

// Everything that can be pressed.
function ready(about) {
  by("preset").append(html("option", { value: "" }, "A picture of your own"));
  for (const group of new Set(about.presets.map((one) => one.group))) {
    const some = about.presets.filter((one) => one.group === group).map((one) => html("option", { value: one.name }, one.title));
    by("preset").append(html("optgroup", { label: group }, ...some));
  }
  known = about.rules;
  suggest();
  by("to-runs").hidden = !about.store;
  const press = (id, what) => by(id).addEventListener("click", what);
  by("preset").addEventListener("change", () => by("preset").value && void begin(by("preset").value));
  press("deal", () => ((seed += 1), void begin(by("preset").value)));
  press("walk", () => void walk.toggle());
  press("closer", () => look({ ...state.view, half: state.view.half / 1.25 }));
  press("wider", () => look({ ...state.view, half: state.view.half * 1.25 }));
  press("fit", () => look(fitted(state.points)));
  press("add-honest", () => add(false));
  press("add-liar", () => add(true));
  press("remove", () => remove(plane.selected));
  by("worker").addEventListener("change", () => select(+by("worker").value));
  by("lies").addEventListener("change", () => turn(plane.selected));
  by("nan").addEventListener("change", () => silence(plane.selected));
  for (const [id, at] of [["x", 0], ["y", 1]]) {
    by(id).addEventListener("input", () => {
      const value = by(id).valueAsNumber;
      if (Number.isFinite(value)) place(plane.selected, state.points[plane.selected].map((x, k) => (k === at ? value : x)));
    });
  }
  by("f").addEventListener("input", () => {
    const f = by("f").valueAsNumber;
    if (Number.isInteger(f) && f >= 0 && f <= 19) {
      change({ f, rules: state.rules.map((text) => withF(text, f)) });
      suggest();
    }
  });
  by("images").addEventListener("input", () => {
    const images = by("images").valueAsNumber;
    if (Number.isInteger(images) && images >= 1 && images <= 1000) change({ images });
  });
  for (const name of ["ball", "region", "votes"]) {
    by(`show-${name}`).addEventListener("change", (event) => {
      state = { ...state, show: event.target.checked ? [...state.show, name] : state.show.filter((one) => one !== name) };
      draw();
      keep();
    });
  }
  by("more").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = by("text").value.trim();
    if (!text) return;
    if (state.rules.length >= 12) return refuse("12 rules are the most here; remove one first.");
    void added(text);
  });
  press("link", () => {
    history.replaceState(null, "", `#${encode(state)}`);
    void copied(location.href, "The link is copied; it opens this picture wherever holdfast play runs at the same port.");
  });
  press("svg", () => saveSvg(by("plane")).catch((error) => refuse(error.message)));
  press("python", () => void program());
  press("copy", () => void copied(by("program").textContent, "The program is copied."));
  press("close", () => by("code").close());
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address holds the picture, not a place in the page
    plane.focus(plane.selected);
  });
  window.addEventListener("hashchange", () => restore() || refuse("The address holds no picture; this is the one before."));
}

// A rule joins the table if it answers this round; else it is said why not, and the text stays.
async function added(text) {
  const { points, liars, f, images } = state;
  try {
    const [one] = (await post("/api/round", { points, liars, f, images, rules: [text] })).answers;
    if (one.error) return refuse(one.error);
    refuse("");
    by("text").value = "";
    change({ rules: [...state.rules, one.named], chosen: state.rules.length });
  } catch (error) {
    refuse(error.message);
  }
}

async function program() {
  try {
    const { points, liars, f, rules, images } = state;
    by("program").textContent = (await post("/api/snippet", { points, liars, f, rules, images })).python;
    by("code").showModal();
  } catch (error) {
    refuse(error.message);
  }
}

async function copied(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    refuse("");
    by("toast").textContent = said;
  } catch {
    refuse("The browser does not let this page copy; take it from the address bar.");
  }
}

function restore() {
  const found = decode(location.hash.slice(1));
  if (!found) return false;
  walk.stop();
  plane.release();
  begun += 1;
  again("");
  picture += 1;
  story = "";
  told = null;
  state = { ...found, view: found.view ?? fitted(found.points) };
  suggest();
  for (const name of ["ball", "region", "votes"]) by(`show-${name}`).checked = state.show.includes(name);
  plane.draw(state, null);
  ask();
  return true;
}

try {
  ready(await get("/api/about"));
  const held = location.hash.length > 1;
  if (!restore()) {
    await begin("sneak");
    if (held) refuse("The address holds no picture, so this is the first one.");
  }
} catch (error) {
  refuse(`The server cannot be reached (${error.message}).`);
}
