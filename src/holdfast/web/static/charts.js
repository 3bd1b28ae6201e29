// Charts on canvases: many curves, who was kept, bars of votes, lines of numbers. All in the page's colours.

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const LEFT = 48;
const RIGHT = 16;
const BELOW = 20;
export const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
export const look = (at) => ({ colour: `--m${at % 8}`, dash: DASHES[Math.floor(at / 8) % DASHES.length] });

function sheet(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    [canvas.width, canvas.height] = [Math.round(wide * ratio), Math.round(high * ratio)];
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, wide, high);
  pen.font = "11px system-ui, sans-serif";
  pen.lineJoin = "round";
  return { pen, wide, high };
}

// Axes with round numbers; the way from numbers to pixels.
function axes({ pen, wide, high }, [x0, x1], [y0, y1], text = (y) => `${+y.toPrecision(3)}`) {
  const at = (x) => LEFT + ((x - x0) / Math.max(x1 - x0, 1e-12)) * (wide - LEFT - RIGHT);
  const up = (y) => high - BELOW - ((y - y0) / Math.max(y1 - y0, 1e-12)) * (high - BELOW - 10);
  [pen.strokeStyle, pen.fillStyle, pen.lineWidth] = [style("--line"), style("--soft"), 1];
  pen.textAlign = "right";
  for (const y of steps(y0, y1, Math.max(2, high / 70))) {
    pen.beginPath();
    pen.moveTo(LEFT, up(y));
    pen.lineTo(wide - RIGHT, up(y));
    pen.stroke();
    pen.fillText(text(y), LEFT - 6, up(y) + 4);
  }
  pen.textAlign = "center";
  for (const x of steps(x0, x1, Math.max(2, wide / 160))) pen.fillText(`${+x.toPrecision(6)}`, at(x), high - 5);
  return { at, up };
}

function steps(low, high, many) {
  const rough = (high - low) / many || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [5, 2, 1].map((k) => k * size).find((one) => one <= rough * (1 + 1e-9));
  const out = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-9; x += step) out.push(x);
  return out;
}

function path(pen, points) {
  pen.beginPath();
  points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

// Accuracy of many runs; the paper's numbers are faint lines. Returns what lies where, for the pointer.
export function curves(canvas, rows, colours, chosen) {
  const made = sheet(canvas);
  const last = Math.max(1, ...rows.map((row) => row.of));
  const { at, up } = axes(made, [0, last], [0, 1]);
  const { pen } = made;
  const many = rows.length > 60;
  pen.lineWidth = 1;
  pen.setLineDash([3, 4]);
  const drawn = new Set();
  for (const { paper, rule } of rows) {
    if (!paper || drawn.has(paper.accuracy + rule)) continue;
    drawn.add(paper.accuracy + rule);
    pen.globalAlpha = many ? 0.15 : 0.45;
    pen.strokeStyle = style(look(colours.get(rule) ?? 0).colour);
    path(pen, [[at(0), up(paper.accuracy)], [at(last), up(paper.accuracy)]]);
  }
  const shades = new Map([...colours.values()].map((k) => [k, style(look(k).colour)]));
  const placed = [];
  for (const row of [...rows.filter((one) => one.key !== chosen), ...rows.filter((one) => one.key === chosen)]) {
    const { dash } = look(colours.get(row.rule) ?? 0);
    const points = row.curve.map(([x, y]) => [at(x), up(y)]);
    const front = row.key === chosen;
    pen.setLineDash(dash);
    pen.strokeStyle = shades.get(colours.get(row.rule)) ?? shades.get(0);
    pen.globalAlpha = front ? 1 : many || chosen ? 0.4 : 0.85;
    pen.lineWidth = front ? 3 : 1.3;
    if (points.length > 1) path(pen, points);
    else for (const [x, y] of points) pen.strokeRect(x - 1.5, y - 1.5, 3, 3);
    placed.push({ row, points });
  }
  pen.globalAlpha = 1;
  pen.setLineDash([]);
  return placed;
}

// One curve with the paper's number and its deviation over seeds.
export function accuracy(canvas, row) {
  const made = sheet(canvas);
  const { at, up } = axes(made, [0, row.of], [0, 1]);
  const { pen } = made;
  if (row.paper) {
    const { accuracy: value, deviation } = row.paper;
    if (deviation) {
      pen.fillStyle = style("--faint");
      pen.fillRect(at(0), up(Math.min(1, value + deviation)), at(row.of) - at(0), up(Math.max(0, value - deviation)) - up(Math.min(1, value + deviation)));
    }
    [pen.strokeStyle, pen.fillStyle] = [style("--soft"), style("--soft")];
    pen.setLineDash([4, 4]);
    path(pen, [[at(0), up(value)], [at(row.of), up(value)]]);
    pen.setLineDash([]);
    pen.textAlign = "left";
    pen.fillText(`the paper: ${value.toFixed(2)}`, at(0) + 6, up(value) - 4);
  }
  [pen.strokeStyle, pen.fillStyle, pen.lineWidth] = [style("--m1"), style("--m1"), 2];
  const points = row.curve.map(([x, y]) => [at(x), up(y)]);
  path(pen, points);
  for (const [x, y] of points.length < 40 ? points : points.slice(-1)) pen.fillRect(x - 2, y - 2, 4, 4);
}

// Workers down, rounds across; liars are the last workers, below a line.
export function kept(canvas, told, workers, liars) {
  const { pen, wide, high } = sheet(canvas);
  const rounds = told.kept.length;
  if (!rounds) return null;
  const shades = { k: rgb("--kept"), "-": rgb("--excluded"), x: rgb("--dropped") };
  const image = new ImageData(rounds, workers);
  told.kept.forEach((letters, t) => {
    for (let i = 0; i < workers; i++) {
      const shade = shades[letters[i]];
      if (shade) image.data.set([...shade, 255], 4 * (i * rounds + t));
    }
  });
  const small = new OffscreenCanvas(rounds, workers);
  small.getContext("2d").putImageData(image, 0, 0);
  const box = { left: LEFT, wide: wide - LEFT - RIGHT, high: high - BELOW, rounds, every: told.every };
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, box.left, 4, box.wide, box.high - 4);
  [pen.fillStyle, pen.strokeStyle, pen.lineWidth, pen.textAlign] = [style("--soft"), style("--ink"), 1.5, "right"];
  const border = 4 + ((box.high - 4) * (workers - liars)) / workers;
  if (liars) path(pen, [[box.left - 4, border], [box.left + box.wide, border]]);
  pen.fillText("honest", LEFT - 6, Math.max(14, (border + 4) / 2 + 4));
  if (liars) pen.fillText("liars", LEFT - 6, (border + box.high) / 2 + 4);
  pen.textAlign = "center";
  const last = rounds * told.every;
  for (const x of steps(0, last, Math.max(2, wide / 160))) pen.fillText(`${x}`, box.left + (x / last) * box.wide, high - 5);
  return box;
}

function rgb(name) {
  const text = style(name).slice(1);
  return [0, 2, 4].map((k) => parseInt(text.slice(k, k + 2), 16));
}

// The lead of Outer in every round, by who won; the honest margin as a line, on a scale of its own around the same zero.
export function votes(canvas, told) {
  const made = sheet(canvas);
  const { pen } = made;
  const known = told.lead.filter((x) => x !== null);
  const most = Math.max(1e-9, ...known.map(Math.abs));
  const last = Math.max(1, told.lead.length * told.every);
  const { at, up } = axes(made, [0, last], [-most, most]);
  const width = Math.max(1, (at(last) - at(0)) / told.lead.length);
  told.lead.forEach((lead, t) => {
    if (lead === null) return;
    pen.fillStyle = style(told.winner[t] === "o" ? "--m2" : "--m1");
    const [top, foot] = [Math.min(up(lead), up(0)), Math.max(up(lead), up(0))];
    pen.fillRect(at(t * told.every), top, Math.max(1, width - (width > 4 ? 1 : 0)), Math.max(2, foot - top));
  });
  const widest = Math.max(1e-12, ...told.margin.filter((x) => x !== null).map(Math.abs));
  [pen.strokeStyle, pen.lineWidth] = [style("--ink"), 1.6];
  path(pen, told.margin.flatMap((x, t) => (x === null ? [] : [[at((t + 0.5) * told.every), up((x / widest) * most)]])));
}

// Numbers over the rounds, on a logarithmic scale where they are far apart.
export function line(canvas, values, every, shade) {
  const made = sheet(canvas);
  const known = values.filter((x) => x !== null && x > 0);
  if (!known.length) return;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const far = high / low > 30;
  const as = far ? Math.log10 : (x) => x;
  const span = far ? [Math.floor(as(low)), Math.ceil(as(high))] : [0, high * 1.05];
  const { at, up } = axes(made, [0, Math.max(1, values.length * every)], span, far ? (y) => `1e${Math.round(y)}` : undefined);
  [made.pen.strokeStyle, made.pen.lineWidth] = [style(shade), 1.6];
  path(made.pen, values.flatMap((x, t) => (x === null || (far && x <= 0) ? [] : [[at((t + 1) * every), up(as(x))]])));
}
