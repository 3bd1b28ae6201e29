// The plane: points that can be dragged or moved by keys, and what the chosen rules make of them.

import { LETTERS, STAR, colour, element, put, say, shape } from "./marks.js";

const SIZE = 7;
const OVER = 9; // pixels within which labels are put together

export class Plane {
  constructor(svg, on) {
    [this.svg, this.on, this.view, this.selected] = [svg, on, { x: 0, y: 0, half: 2 }, 0];
    this.layers = Object.fromEntries(
      ["grid", "regions", "lines", "points", "answers"].map((name) => [name, element("g", { "data-layer": name })]),
    );
    for (const name of ["grid", "regions", "lines", "answers"]) this.layers[name].setAttribute("aria-hidden", "true");
    svg.append(...Object.values(this.layers));
    svg.addEventListener("pointerdown", (event) => this.pan(event));
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.resized = true;
    new ResizeObserver(() => {
      this.resized = true;
      this.on.resized();
    }).observe(svg);
  }

  measure() {
    const box = this.svg.getBoundingClientRect();
    [this.wide, this.high] = [Math.max(box.width, 50), Math.max(box.height, 50)];
    this.svg.setAttribute("viewBox", `0 0 ${this.wide} ${this.high}`);
    this.unit = Math.min(this.wide, this.high) / (2 * this.view.half);
  }

  at([x, y]) {
    return [this.wide / 2 + (x - this.view.x) * this.unit, this.high / 2 - (y - this.view.y) * this.unit];
  }

  from(px, py) {
    const box = this.svg.getBoundingClientRect();
    const step = 10 ** Math.floor(Math.log10(2 / this.unit)); // two pixels, as a round number
    const snap = (x) => +(Math.round(x / step) * step).toPrecision(12);
    const x = this.view.x + (px - box.left - this.wide / 2) / this.unit;
    const y = this.view.y - (py - box.top - this.high / 2) / this.unit;
    return [snap(x), snap(y)];
  }

  frame() {
    const [across, up] = [this.wide / 2 / this.unit, this.high / 2 / this.unit];
    return [[this.view.x - across, this.view.y - up], [this.view.x + across, this.view.y + up]];
  }

  // Points at once, wherever the answers are.
  draw(state, told, answer = told?.answers?.[state.chosen]) {
    if (state.view !== this.view || this.resized) {
      this.view = state.view;
      this.measure();
      this.grid();
      this.resized = false;
    }
    this.state = state;
    this.points(answer);
    if (told) this.answers(told);
  }

  grid() {
    const step = 10 ** Math.ceil(Math.log10(60 / this.unit));
    const every = step * this.unit > 250 ? step / 5 : step * this.unit > 120 ? step / 2 : step;
    const [[left, low], [right, high]] = this.frame();
    const made = [];
    const digits = Math.max(0, Math.min(12, Math.ceil(-Math.log10(every)) + 1));
    const text = (x) => `${+x.toFixed(digits)}`;
    const lines = (from, to) => Array.from({ length: Math.min(100, Math.floor(to / every) - Math.ceil(from / every) + 1) }, (_, k) => Math.ceil(from / every) + k);
    for (const k of lines(left, right)) {
      const [x] = this.at([k * every, 0]);
      made.push(element("line", { class: k ? "grid" : "axis", x1: x, x2: x, y1: 0, y2: this.high }));
      made.push(element("text", { class: "tick", x: x + 3, y: this.high - 4 }, text(k * every)));
    }
    for (const k of lines(low, high)) {
      const [, y] = this.at([0, k * every]);
      made.push(element("line", { class: k ? "grid" : "axis", x1: 0, x2: this.wide, y1: y, y2: y }));
      made.push(element("text", { class: "tick", x: 4, y: y - 3 }, text(k * every)));
    }
    this.layers.grid.replaceChildren(...made);
  }

  points(answer) {
    const { points, liars } = this.state;
    const layer = this.layers.points;
    while (layer.children.length > points.length) layer.lastChild.remove();
    while (layer.children.length < points.length) layer.append(this.made(layer.children.length));
    this.selected = Math.min(this.selected, points.length - 1);
    const silent = points.map((p, i) => (p ? -1 : i)).filter((i) => i >= 0);
    const places = new Map();
    points.forEach((p, i) => {
      const lies = liars.includes(i);
      const [x, y] = p ? this.at(p) : this.shelf(silent.indexOf(i));
      const spot = `${x.toFixed(1)} ${y.toFixed(1)}`;
      places.set(spot, [...(places.get(spot) ?? []), i]);
      const weight = answer?.weights ? answer.weights[i] : 1;
      const part = answer?.measure === "share" ? 0.25 + 0.75 * weight : 1;
      const node = layer.children[i];
      const where = p ? `at ${p[0]}, ${p[1]}` : "sends NaN";
      const fate = !answer?.weights ? "" : answer.dropped[i] ? `, dropped: ${answer.dropped[i]}` : weight ? ", kept" : ", excluded";
      const kind = `point ${lies ? "liar" : "honest"}${weight ? "" : " left"}${i === this.selected ? " selected" : ""}`;
      const label = `Worker ${i}, ${lies ? "liar" : "honest"}, ${where}${fate}`;
      put(node, { class: kind, transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})`, tabindex: i === this.selected ? 0 : -1, "aria-label": label });
      put(node.children[1], { d: lies ? "M-6.5-6.5H6.5V6.5H-6.5Z" : "M0-7A7 7 0 1 0 .01-7Z", "fill-opacity": part });
      put(node.children[2], { d: lies ? "M-3-3L3 3M3-3L-3 3" : "" });
    });
    for (const some of places.values()) {
      some.forEach((i, k) => {
        say(layer.children[i].children[4], k ? "" : `${i}`); // where several are, the first has its number, the last says how many
        say(layer.children[i].children[5], some.length > 1 && k === some.length - 1 ? `×${some.length}` : "");
      });
    }
    this.silent = silent.length;
  }

  // Where those stand who send no number: in rows at the top.
  shelf(k) {
    const many = Math.max(1, Math.floor((this.wide - 90) / 24));
    return [18 + 24 * (k % many), 20 + 26 * Math.floor(k / many)];
  }

  made(i) {
    const node = element(
      "g",
      { role: "button", "aria-roledescription": "movable point" },
      element("circle", { class: "hit", r: 16 }),
      element("path", { class: "body" }),
      element("path", { class: "cross" }),
      element("circle", { class: "ring", r: SIZE + 5 }),
      element("text", { class: "who", x: 9, y: -6 }),
      element("text", { class: "many", x: 10, y: 12 }),
    );
    node.addEventListener("pointerdown", (event) => this.drag(event, i));
    node.addEventListener("keydown", (event) => this.on.key(event, i));
    node.addEventListener("focus", () => this.on.select(i));
    return node;
  }

  focus(i) {
    this.layers.points.children[i]?.focus();
  }

  drag(event, i) {
    if (event.button) return;
    event.stopPropagation();
    event.preventDefault();
    this.on.select(i);
    this.focus(i);
    const node = event.currentTarget;
    node.setPointerCapture(event.pointerId);
    const begin = [event.clientX, event.clientY];
    const held = (this.held = {});
    let moved = false;
    const move = (next) => {
      if (this.held !== held || next.pointerId !== event.pointerId) return;
      moved ||= Math.hypot(next.clientX - begin[0], next.clientY - begin[1]) > 3;
      if (moved) this.on.move(i, this.from(next.clientX, next.clientY), next.timeStamp);
    };
    const end = () => {
      node.removeEventListener("pointermove", move);
      this.release();
      this.on.moved();
    };
    node.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"]) node.addEventListener(name, end, { once: true });
  }

  // Whoever drags a point that is no longer the same lets go of it.
  release() {
    this.held = null;
  }

  pan(event) {
    if (event.button || event.pointerType === "touch") return;
    const [begin, from] = [[event.clientX, event.clientY], { ...this.view }];
    const move = (next) => {
      const [dx, dy] = [next.clientX - begin[0], next.clientY - begin[1]];
      this.on.look({ ...this.view, x: from.x - dx / this.unit, y: from.y + dy / this.unit });
    };
    const end = () => window.removeEventListener("pointermove", move);
    window.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, end, { once: true });
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.on.look({ ...this.view, half: this.view.half * 1.0015 ** event.deltaY });
  }

  answers(told) {
    const { show, chosen, points } = this.state;
    const focus = told.answers[chosen];
    const regions = [];
    const lines = [];
    const circle = (kind, centre, r) => {
      const [x, y] = this.at(centre);
      const radius = Math.min(r * this.unit, 1e5);
      if (radius > 0) regions.push(element("circle", { class: kind, cx: x, cy: y, r: radius }));
    };
    for (const [name, one] of Object.entries(focus?.candidates ?? (focus ? { "": focus } : {}))) {
      if (show.includes("ball") && one.ball && points[one.ball[0]]) circle(`ball ${name}`, points[one.ball[0]], one.ball[1]);
    }
    if (show.includes("region") && focus?.certificate?.region > 0) circle(this.beyond(focus) ? "region beyond" : "region", focus.value, focus.certificate.region);
    const mean = told.mean && this.at(told.mean);
    if (focus?.value) {
      const to = this.at(focus.value);
      lines.push(element("line", { class: "off", x1: mean[0], y1: mean[1], x2: to[0], y2: to[1] }));
    }
    if (show.includes("votes") && focus?.gains) lines.push(...this.votes(focus));
    this.layers.regions.replaceChildren(...regions, ...(this.silent ? this.tray() : []));
    this.layers.lines.replaceChildren(...lines);
    const star = mean ? [element("path", { class: "star", d: STAR, transform: `translate(${mean})` })] : [];
    this.layers.answers.replaceChildren(...this.marks(told), ...star);
  }

  // Whether the certified region is all that one sees.
  beyond(answer) {
    const [[left, low], [right, high]] = this.frame();
    const corners = [[left, low], [left, high], [right, low], [right, high]];
    return corners.every(([x, y]) => Math.hypot(x - answer.value[0], y - answer.value[1]) < (answer.certificate?.region ?? 0));
  }

  tray() {
    const places = Array.from({ length: this.silent }, (_, k) => this.shelf(k));
    const [wide, high] = [Math.max(...places.map(([x]) => x)) + 18, Math.max(...places.map(([, y]) => y)) + 16];
    return [element("rect", { class: "tray", x: 3, y: 3, width: wide, height: high, rx: 6 }), element("text", { class: "said", x: wide + 8, y: 24 }, "send NaN")];
  }

  votes(focus) {
    return Object.entries(focus.gains).flatMap(([i, gain]) => {
      const [point, lies] = [this.state.points[i], this.state.liars.includes(+i)];
      if (!point || !gain) return [];
      const side = gain > 0 ? "outer" : "inner";
      const [[x1, y1], [x2, y2]] = [this.at(point), this.at(focus.candidates[side].value)];
      return [element("line", { class: `vote ${side}${lies ? " lie" : ""}`, x1, y1, x2, y2 })];
    });
  }

  marks(told) {
    const placed = [];
    told.answers.forEach((one, i) => {
      if (!one.value) return;
      const shown = Object.entries(i === this.state.chosen && one.candidates ? one.candidates : { "": one });
      for (const [name, each] of shown) {
        const label = LETTERS[i] + (name ? (name === "inner" ? "·Inner" : "·Outer") : "");
        placed.push({ at: this.at(each.value), label, i });
      }
    });
    const made = placed.map(({ at, i }) => element("path", { class: `mark ${colour(i)}`, d: shape(i), transform: `translate(${at})` }));
    const groups = []; // marks so near to each other that their letters share a place
    for (const one of placed) {
      const near = groups.find(([{ at }]) => Math.hypot(at[0] - one.at[0], at[1] - one.at[1]) < OVER);
      if (near) near.push(one);
      else groups.push([one]);
    }
    for (const some of groups) {
      const [x, y] = some[0].at;
      const right = x > this.wide - 90;
      made.push(element("text", { class: "letter", x: right ? x - 11 : x + 11, y: y + 14, "text-anchor": right ? "end" : "start" }, some.map((one) => one.label).join(" ")));
    }
    return made;
  }
}
