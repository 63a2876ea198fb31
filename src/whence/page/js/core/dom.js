// Elements, made from names and text only: nothing from the data is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";
export const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
export const MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";

export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

// The parts of a container, built the first time it is drawn into, so that focus survives the next drawing.
export function once(container, build) {
  if (!built.has(container)) built.set(container, build());
  return built.get(container);
}
const built = new WeakMap();

// Hides an element or shows it; focus that was inside goes elsewhere instead of being lost.
export function hide(element, hidden, instead) {
  if (hidden && element.contains(document.activeElement)) instead.focus({ preventScroll: true });
  element.hidden = hidden;
}

// A drop-down with its label; the first call for a key makes it, later calls bring it up to date.
export function select(parent, key, label, options, value, change, disabled = false) {
  const held = once(parent, () => new Map());
  if (!held.has(key)) {
    const list = h("select", {});
    const whole = h("label", { class: "choice" }, h("span", {}, label), list);
    parent.append(whole);
    held.set(key, { list, whole, options: "" });
  }
  const held_one = held.get(key);
  const described = JSON.stringify(options);
  if (held_one.options !== described) {
    held_one.list.replaceChildren(...options.map(([name, text]) => h("option", { value: name }, text)));
    held_one.options = described;
  }
  held_one.list.value = String(value);
  held_one.list.disabled = disabled;
  held_one.list.onchange = () => change(held_one.list.value);
  held_one.whole.hidden = options.length < 2;
}

// A slider over shares from 0 to 1; small ones get more of its length.
export function slider(parent, key, label, value, format, change) {
  const held = once(parent, () => new Map());
  if (!held.has(key)) {
    const input = h("input", { type: "range", min: "0", max: "100", step: "1" }),
      said = h("output", {});
    parent.append(h("label", { class: "choice" }, h("span", {}, label), input, said));
    held.set(key, { input, said });
  }
  const { input, said } = held.get(key),
    place = Math.round(Math.sqrt(value) * 100);
  if (document.activeElement !== input) input.value = String(place);
  said.textContent = format(value);
  input.setAttribute("aria-valuetext", format(value));
  input.oninput = () => change(Number(((input.value / 100) ** 2).toPrecision(3)));
}

const widths = new Map();
let ruler;
export function textWidth(text, size, family = MONO) {
  const key = `${size} ${family} ${text}`;
  if (!widths.has(key)) {
    ruler ??= document.createElement("canvas").getContext("2d"); // not before it is needed: tests have no document
    ruler.font = `${size}px ${family}`;
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

const segmenter = new Intl.Segmenter();
// The text, cut between characters as people see them so that it fits.
export function fitted(text, room, size, family = MONO) {
  if (textWidth(text, size, family) <= room) return text;
  const characters = [...segmenter.segment(text.slice(0, 60))].map((found) => found.segment);
  while (characters.length > 1 && textWidth(`${characters.join("")}…`, size, family) > room) characters.pop();
  return `${characters.join("")}…`;
}

let bubble, crier;
// Where what floats is kept: inside a notebook only the widget has the style for it.
function host() {
  return document.querySelector(".whence-widget") ?? document.body;
}

export function tell(event, text) {
  if (!bubble?.isConnected) bubble = host().appendChild(h("div", { class: "tip", "aria-hidden": "true" }));
  bubble.textContent = text;
  bubble.hidden = false;
  const { width, height } = bubble.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 6);
  const below = event.clientY + 18;
  bubble.style.left = `${Math.max(left, 6)}px`;
  bubble.style.top = `${below + height > innerHeight ? event.clientY - height - 12 : below}px`;
}

export function hush() {
  if (bubble) bubble.hidden = true;
}

export function announce(text) {
  if (!crier?.isConnected) crier = host().appendChild(h("div", { class: "unseen", "aria-live": "polite" }));
  crier.textContent = text;
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element[name] = value;
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
