// One run: its curve beside the paper's number, who was kept in which round, votes, certificates, what went wrong.

import { get } from "./api.js";
import { accuracy, kept, line, votes } from "./charts.js";
import { html } from "./marks.js";

const COLUMNS = ["lead", "margin", "kappa", "liars"];
const FATES = { k: "kept", "-": "excluded", x: "dropped", ".": "absent" };

export class Detail {
  constructor(box) {
    [this.box, this.key, this.told, this.busy] = [box, null, null, false];
    new ResizeObserver(() => this.draw()).observe(box);
  }

  // Show a run, or what is new of it; a row is another object whenever its run has changed.
  async show(row) {
    this.wanted = row;
    if (this.busy) return;
    if (!row) return this.empty();
    const same = this.key === row.key;
    this.busy = true;
    try {
      const since = same && this.told ? this.told.from + this.told.kept.length : 0;
      const found = await get(`/api/runs/${row.key}?since=${since}`);
      this.told = same && this.told?.every === 1 && found.from === since && since && found.every === 1 ? joined(this.told, found) : found;
      this.key = row.key;
      if (!same || this.state !== found.state || this.shape !== shape(this.told)) this.build();
      this.fill();
      this.draw();
    } catch (error) {
      this.box.replaceChildren(html("p", { class: "error" }, error.message));
      this.key = null;
    } finally {
      this.busy = false;
    }
    if (this.wanted !== row) await this.show(this.wanted); // another, or more of it, meanwhile
  }

  empty() {
    [this.key, this.told] = [null, null];
    this.box.replaceChildren(html("p", { class: "empty" }, "Choose a run to see its rounds."));
  }

  build() {
    const told = this.told;
    [this.state, this.shape] = [told.state, shape(told)];
    const figure = (id, words, ...more) => html("figure", {}, html("canvas", { id, role: "img", "aria-label": words }), html("figcaption", {}, words, ...more));
    const swatch = (kind, words) => [html("span", { class: `swatch ${kind}` }), words];
    const parts = [html("h2", {}, `${told.rule} under ${told.attack}`), html("p", { id: "about" })];
    if (told.why) parts.push(html("h2", {}, "Why it failed"), html("pre", { class: "why", tabindex: 0 }, told.why));
    parts.push(figure("d-accuracy", told.paper ? `Accuracy; dashed, the paper's ${told.paper.table}, ${told.paper.rule} under ${told.paper.attack}` : "Accuracy over the rounds"));
    if (told.kept.length) {
      parts.push(figure("d-kept", "Who had a part in the answer, worker by round:", ...swatch("s-k", "kept"), ...swatch("s-out", "excluded"), ...swatch("s-x", "dropped"), html("span", { id: "d-at" })));
      if (voted(told)) parts.push(figure("d-votes", "The lead of Outer in every election:", ...swatch("s-i", "Inner won"), ...swatch("s-o", "Outer won"), html("span", { id: "d-margin" })));
      if (told.kappa.some((x) => x !== null)) parts.push(figure("d-kappa", "κ(X), certified in every round: squared distance to the honest mean, in honest variances"));
      if (told.liars.some((x) => x)) parts.push(figure("d-liars", "The liars' share of the answer"));
    } else parts.push(html("p", { class: "soft" }, told.state === "done" ? "Of this run there are the evaluations alone; its rounds were not archived." : "No round has been written yet."));
    parts.push(html("details", { id: "d-events", hidden: true }, html("summary", {}), html("ul", { class: "events" })));
    const record = Object.entries(told.record).flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, `${value}`)]);
    parts.push(html("details", {}, html("summary", {}, `The record of ${told.key}`), html("dl", {}, ...record)));
    this.box.replaceChildren(...parts);
    this.at("d-kept")?.addEventListener("pointermove", (event) => this.point(event));
  }

  at(id) {
    return this.box.querySelector(`#${id}`);
  }

  fill() {
    const told = this.told;
    const words = [`${told.state}, ${told.done} of ${told.of} rounds`, `${told.record.byzantine} of ${told.record.workers} lie`, `${told.data}, ${told.split}`, `seed ${told.seed}`];
    if (told.accuracy !== null) words.push(`accuracy ${told.accuracy.toFixed(4)}${told.paper ? ` (paper ${told.paper.accuracy.toFixed(2)})` : ""}`);
    if (told.outer !== null) words.push(`Outer won ${Math.round(100 * told.outer)} %`);
    if (told.skipped) words.push(`${told.skipped} rounds skipped`);
    if (told.seconds !== null) words.push(told.seconds < 90 ? `${told.seconds.toFixed(1)} s` : `${(told.seconds / 60).toFixed(1)} minutes`);
    this.at("about").textContent = `${words.join("; ")}.`;
    if (this.at("d-margin")) this.at("d-margin").textContent = this.margin();
    const events = this.at("d-events");
    events.hidden = !told.events.length;
    events.firstChild.textContent = `${told.events.length} last events`;
    events.lastChild.replaceChildren(...told.events.toReversed().map(([round, text]) => html("li", {}, `round ${round}: ${text}`)));
  }

  // By how much the honest preferred Outer in the last election; the line shows all of them.
  margin() {
    const last = this.told.margin.findLast((x) => x !== null);
    return last === undefined ? "" : `; the line is the honest margin, how much larger their loss at Inner is than at Outer, last ${last.toPrecision(3)}`;
  }

  draw() {
    const told = this.told;
    if (!told || !this.at("d-accuracy")) return;
    accuracy(this.at("d-accuracy"), told);
    const record = told.record;
    if (this.at("d-kept")) this.chart = kept(this.at("d-kept"), told, record.workers, record.byzantine);
    if (this.at("d-votes")) votes(this.at("d-votes"), told);
    if (this.at("d-kappa")) line(this.at("d-kappa"), told.kappa, told.every, "--m3");
    if (this.at("d-liars")) line(this.at("d-liars"), told.liars, told.every, "--m2");
  }

  point(event) {
    const [box, area] = [this.chart, event.currentTarget.getBoundingClientRect()];
    if (!box) return;
    const t = Math.floor(((event.clientX - area.left - box.left) / box.wide) * box.rounds);
    const i = Math.floor(((event.clientY - area.top - 4) / (box.high - 4)) * this.told.record.workers);
    const letter = this.told.kept[t]?.[i];
    this.at("d-at").textContent = letter ? ` – round ${t * box.every}, worker ${i}: ${FATES[letter] ?? letter}` : "";
  }
}

const voted = (told) => told.winner.replaceAll(".", "").length > 0;
const shape = (told) => [told.kept.length > 0, voted(told), told.kappa.some((x) => x !== null), told.liars.some((x) => x), Boolean(told.why)].join();

function joined(before, found) {
  const out = { ...found, from: before.from, kept: [...before.kept, ...found.kept], winner: before.winner + found.winner };
  for (const name of COLUMNS) out[name] = [...before[name], ...found[name]];
  return out;
}
