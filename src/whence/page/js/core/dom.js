// @ts-check
// Elements, made from names and text only: nothing from the data is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";
export const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
export const MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name @param {Record<string, any>} attributes @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} name @param {Record<string, any>} attributes @param {(Node | string)[]} children
 * @returns {SVGElementTagNameMap[K]}
 */
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

// What a container holds under a key, made and appended by the first call for it.
export function kept(parent, key, build) {
  const held = once(parent, () => new Map());
  if (!held.has(key)) {
    held.set(key, build());
    parent.append(held.get(key).whole ?? held.get(key));
  }
  return held.get(key);
}

function labelled(label, ...fields) {
  return h("label", { class: "choice" }, h("span", {}, label), ...fields);
}

/**
 * A drop-down with its label; the first call for a key makes it, later calls bring it up to date.
 * @param {HTMLElement} parent @param {string} key @param {string} label @param {string[][]} options
 * @param {string | number} value @param {(value: string) => void} change
 */
export function select(parent, key, label, options, value, change, disabled = false) {
  const { list, whole } = kept(parent, key, () => {
    const made = h("select", {});
    return { list: made, whole: labelled(label, made) };
  });
  const described = JSON.stringify(options);
  if (list.described !== described)
    list.replaceChildren(...options.map(([name, text]) => h("option", { value: name }, text)));
  Object.assign(list, { described, value: String(value), disabled, onchange: () => change(list.value) });
  whole.hidden = options.length < 2;
}

/**
 * Offers what is ready and better than what is shown; nothing without one.
 * @param {HTMLElement} parent @param {string[] | null} better  its key and its title
 * @param {(key: string) => void} show
 */
export function offered(parent, better, show) {
  const button = kept(parent, "better", () => h("button", { type: "button", class: "better" }));
  hide(button, !better, parent);
  button.textContent = better ? `${better[1]} is ready: show it` : "";
  button.onclick = () => show(better[0]);
}

/** A button that switches between light and dark. @param {(theme: string) => void} change */
export function themed(button, shade, change) {
  const other = shade === "dark" ? "light" : "dark",
    name = `Switch to ${other} colours`;
  button.textContent = "◐";
  for (const [attribute, value] of Object.entries({ "aria-label": name, title: name }))
    button.setAttribute(attribute, value);
  button.onclick = () => change(other);
}

// A slider over shares from 0 to 1.
export function slider(parent, key, label, value, format, change) {
  const { input, said } = kept(parent, key, () => {
    const made = h("input", { type: "range", min: "0", max: "100", step: "1" }),
      output = h("output", {});
    return { input: made, said: output, whole: labelled(label, made, output) };
  });
  if (document.activeElement !== input) input.value = String(Math.round(value * 100));
  said.textContent = format(value);
  input.setAttribute("aria-valuetext", format(value));
  input.oninput = () => change(Number(input.value) / 100);
}

const widths = new Map();
/** @type {CanvasRenderingContext2D} */
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

/** @type {HTMLElement} */
let bubble;
/** @type {HTMLElement} */
let crier;
// Where what floats is kept: inside a notebook only the widget has the style for it.
function host() {
  return document.querySelector(".whence-widget") ?? document.body;
}

export function tell(event, text) {
  if (!bubble?.isConnected) {
    bubble = host().appendChild(h("div", { class: "tip", "aria-hidden": "true" }));
    for (const kind of ["pointerdown", "scroll"]) addEventListener(kind, hush, { capture: true, passive: true });
  }
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
