// Shapes that tell rules apart without colour, and elements of SVG.

export const LETTERS = "ABCDEFGHIJKL";
const SHAPES = [
  "M-2-7H2V-2H7V2H2V7H-2V2H-7V-2H-2Z", // plus
  "M0-8L7 0L0 8L-7 0Z", // diamond
  "M0-8L8 6H-8Z", // up
  "M0 8L8-6H-8Z", // down
  "M-6-6H6V6H-6Z", // square
  "M-7-4L-4-7L0-3L4-7L7-4L3 0L7 4L4 7L0 3L-4 7L-7 4L-3 0Z", // cross
  "M-8 0L6-8V8Z", // left
  "M8 0L-6-8V8Z", // right
  "M0-8L7-2L4 7H-4L-7-2Z", // pentagon
  "M-4-7H4L8 0L4 7H-4L-8 0Z", // hexagon
  "M-7-7H7L0 0L7 7H-7L0 0Z", // hourglass
  "M0-7A7 7 0 1 0 .01-7Z", // disc
];
export const STAR = "M0-10L2.4-3.2L9.5-3.1L3.8 1.2L5.9 8.1L0 4L-5.9 8.1L-3.8 1.2L-9.5-3.1L-2.4-3.2Z";
export const shape = (at) => SHAPES[at % SHAPES.length];
export const colour = (at) => `m${at % 8}`;

export function element(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Only what differs is written: a browser draws again whatever is touched.
export function put(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) if (node.getAttribute(key) !== `${value}`) node.setAttribute(key, value);
}

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, what] of Object.entries(value)) made.addEventListener(event, what);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
