// Numbers and sentences of the playground.

export const number = (x, digits = 3) => (x === null || x === undefined ? "–" : Math.abs(x) < 1e-9 ? "0" : Math.abs(x) >= 1000 && Math.abs(x) < 1e5 ? x.toFixed(0) : Math.abs(x) >= 1e5 || (x && Math.abs(x) < 1e-3) ? x.toExponential(1) : x.toPrecision(digits));

// What the chosen rule did, what is proved of it, and what is certain about this round; `beyond`: its region is all that one sees.
export function sentence(one, state, story, beyond) {
  if (one.error) return one.error === "–" ? "" : one.error;
  const sure = one.certificate;
  const parts = [`${story ? `${story} ` : ""}${one.rule} is ${number(one.away)} from the honest mean`];
  parts.push(one.measure === "share" ? `it uses parts of ${one.kept.length} of ${state.points.length}` : `it keeps ${one.kept.length} of ${state.points.length}, excludes ${one.excluded.length}`);
  if (Object.keys(one.dropped).length) parts.push(`drops ${Object.keys(one.dropped).join(", ")} (${Object.values(one.dropped)[0]})`);
  const who = one.used === one.rule || one.gains ? "" : ` of ${one.used}`;
  const promise = one.promise?.kappa ? ` Proved${who} for all rounds of ${one.n}: κ ${one.promise.kappa}, λ ${one.promise.lambda}.` : "";
  const wide = sure?.region && beyond ? ", more than is seen here" : "";
  const here = sure?.region ? ` Certified for this one, if up to ${one.f} of these ${one.n} lie, whichever they are: the honest mean is within √κ(X) = ${number(Math.sqrt(sure.kappa))} honest deviations of the answer, here ${number(sure.region)}${wide}.` : "";
  const more = one.over ? ` More lie than the f = ${one.f} that ${one.used} withstands: nothing is promised.` : "";
  return `${parts.join("; ")}.${promise}${more || here}${one.note ? ` ${one.note}.` : ""}`;
}

// How the vote of a two-phase rule went.
export function election(one, state) {
  if (!one.gains) return "";
  const honest = Object.entries(one.gains).filter(([i]) => !state.liars.includes(+i));
  const outer = honest.filter(([, gain]) => gain > 0).length;
  const same = honest.filter(([, gain]) => gain === 0).length;
  const won = one.winner === "outer" ? "Outer" : "Inner";
  const why = one.said ? ` (${one.said})` : "";
  const count = one.winner === "outer" ? one.votes.toReversed() : one.votes;
  const by = one.election === "Ballot" ? ` ${count[0]} to ${count[1]}` : `, by a trimmed mean of ${number(one.lead)} for Outer`;
  const more = state.images > 1 ? `on ${state.images} images for each that its update was made from` : "on as many images as its update was made from";
  return `The vote: every worker compares both candidates ${more}. Of the honest, ${honest.length - outer - same} prefer Inner and ${outer} Outer${same ? `, ${same} see no difference` : ""}; the liars vote against them. ${won} wins${one.said ? "" : by}${why}.`;
}
