// The table of answers: a row a rule, with its mark, how far off it is, the liars' part, and what is certified.

import { LETTERS, colour, element, html, say, shape } from "./marks.js";
import { number } from "./words.js";

export function table(body, answers, chosen, on) {
  const best = Math.min(...answers.filter((one) => !one.error).map((one) => one.away));
  const form = JSON.stringify([chosen, answers.map((one) => [one.rule, one.error])]);
  if (body.dataset.form !== form) {
    body.dataset.form = form;
    rows(body, answers, chosen, on);
  }
  for (const [i, one] of answers.entries()) {
    if (one.error) continue;
    const cells = body.children[i].querySelectorAll(".number");
    const texts = [number(one.away), `${Math.round(100 * one.lied)} %`, one.certificate === undefined ? "…" : number(one.certificate?.kappa)];
    texts.forEach((text, k) => say(cells[k], text));
    cells[0].classList.toggle("best", one.away <= best + 1e-12);
  }
}

// The table anew: only when rules come or go, are chosen, or begin to refuse.
function rows(body, answers, chosen, on) {
  const held = [...body.children].indexOf(document.activeElement?.closest?.("tr"));
  const kind = document.activeElement?.className;
  body.replaceChildren(
    ...answers.map((one, i) => {
      const mark = element("svg", { viewBox: "-10 -10 30 20", role: "img", "aria-label": `mark ${LETTERS[i]}` }, element("path", { class: colour(i), d: shape(i) }), element("text", { x: 10, y: 5, class: "letter" }, LETTERS[i]));
      const choose = html("button", { type: "button", class: "name", "aria-pressed": String(i === chosen), title: one.rule, on: { click: () => on.choose(i) } }, one.rule);
      const remove = html("button", { type: "button", class: "drop", "aria-label": `Remove ${one.rule}`, on: { click: () => on.remove(i) } }, "×");
      const cells = one.error
        ? [html("td", { class: "error", colspan: 3 }, one.error.split(/; known are|\. /)[0].slice(0, 160))]
        : [1, 2, 3].map(() => html("td", { class: "number" }));
      return html("tr", { "data-on": String(i === chosen) }, html("td", {}, mark), html("td", {}, choose), ...cells, html("td", {}, remove));
    }),
  );
  if (held >= 0) body.children[Math.min(held, answers.length - 1)]?.querySelector(`.${kind}`)?.focus(); // who pressed a key goes on there
}
