// The whole picture as text: points, who lies, f, rules, which rule is looked at, and the view. It stands in the address.

export const MOST = 40;
const FAR = 1e6;
const [NEAR, WIDE] = [1e-6, 1.5e6]; // how close and how wide a view can be
export const clamped = (view) => ({ ...view, half: Math.max(NEAR, Math.min(WIDE, view.half)) });

export function encode(state) {
  const words = new URLSearchParams();
  words.set("p", state.points.map((p) => (p ? `${p[0]},${p[1]}` : "nan")).join(";"));
  words.set("l", state.liars.join("."));
  words.set("f", state.f);
  for (const rule of state.rules) words.append("r", rule);
  words.set("c", state.chosen);
  words.set("v", [state.view.x, state.view.y, state.view.half].map((x) => +x.toPrecision(12)).join(","));
  words.set("s", state.show.join("."));
  words.set("k", state.images);
  return words.toString();
}

// The state that a text holds; null if it holds none.
export function decode(text) {
  const words = new URLSearchParams(text);
  const points = (words.get("p") ?? "").split(";").map(point);
  const whole = (x) => /^\d{1,3}$/.test(x);
  const liars = (words.get("l") ?? "").split(".").filter(Boolean);
  const rules = words.getAll("r").slice(0, 12);
  const view = (words.get("v") ?? "").split(",").map(Number);
  const good = points.length <= MOST && points.every((p) => p !== undefined) && liars.every(whole) && whole(words.get("f") ?? "x");
  if (!good || liars.some((i) => +i >= points.length)) return null;
  const seen = view.length === 3 && view.every((x) => Number.isFinite(x) && Math.abs(x) <= 2 * FAR) && view[2] > 0;
  return {
    points,
    liars: [...new Set(liars.map(Number))].sort((a, b) => a - b),
    f: Math.min(19, +words.get("f")),
    rules: rules.map((rule) => rule.slice(0, 300)),
    chosen: whole(words.get("c") ?? "") ? Math.min(+words.get("c"), Math.max(0, rules.length - 1)) : 0,
    view: seen ? clamped({ x: view[0], y: view[1], half: view[2] }) : null,
    images: /^\d{1,4}$/.test(words.get("k") ?? "") ? Math.max(1, Math.min(1000, +words.get("k"))) : 8,
    show: (words.get("s") ?? "ball.region.votes").split(".").filter((one) => ["ball", "region", "votes"].includes(one)),
  };
}

function point(text) {
  if (text === "nan") return null;
  const numbers = text.split(",");
  const plain = numbers.length === 2 && numbers.every((x) => /^-?\d+(\.\d+)?(e[-+]?\d+)?$/.test(x) && Math.abs(+x) <= FAR);
  return plain ? numbers.map(Number) : undefined;
}

// A view that holds all points, with some room.
export function fitted(points) {
  const known = points.filter(Boolean);
  if (!known.length) return { x: 0, y: 0, half: 2 };
  const [xs, ys] = [known.map((p) => p[0]), known.map((p) => p[1])];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  return { x: (left + right) / 2, y: (low + high) / 2, half: Math.max(right - left, high - low, 0.2) * 0.62 };
}

// The rule's text for another f: every f=number in it.
export const withF = (rule, f) => rule.replace(/\bf\s*=\s*\d+/g, `f=${f}`);
