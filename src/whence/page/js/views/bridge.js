// @ts-check
// Both sides of one hidden token: whence it came, and what it is disposed to say by a lens.

import { called } from "../core/data.js";
import { h, once } from "../core/dom.js";
import * as disposed from "./disposed.js";
import * as sides from "./sides.js";

/** @typedef {import("../whither.js").Selected} Selected */

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const parts = once(container, () => build(container)),
    lensed = data.lensed,
    awaited = lensed ? null : state.live?.awaited("sides");
  parts.say.textContent = awaited ? `Measuring ${awaited}` : lensed ? "" : "The lens says nothing of this text.";
  parts.say.hidden = Boolean(lensed);
  parts.another.hidden = !state.live || !lensed || lensed.trace.token === state.token;
  parts.another.textContent = `Show “${called(data, state.token)}” instead`;
  parts.another.onclick = () => state.live.predict(state.token);
  if (!lensed) return;
  if (parts.of !== lensed) renew(parts, lensed);
  const draw = () => {
    sides.render(parts.sides, lensed, lensed.trace, parts.selected, palette);
    disposed.render(parts.grid, lensed, parts.selected, palette, set);
    parts.lenses.replaceChildren(...lensed.lenses.map((lens) => choice(lens, parts.selected, set)));
  };
  /** @param {Partial<Selected>} change */
  const set = (change) => {
    parts.selected = { ...parts.selected, ...change };
    draw();
    const layer = data.layers.indexOf(lensed.layers[parts.selected.layer]);
    if (layer >= 0 && layer !== state.layer) state.set({ layer });
  };
  const chosen = lensed.layers.indexOf(data.layers[state.layer]);
  if (parts.chosen !== chosen && chosen >= 0) parts.selected = { ...parts.selected, layer: chosen };
  parts.chosen = chosen;
  draw();
}

/** @param {HTMLElement} container */
function build(container) {
  const say = h("p", { class: "subtitle", role: "status" }),
    another = h("button", { type: "button" }),
    lenses = h("div", { class: "toggle", role: "group", "aria-label": "Lens" }),
    body = h("div", {});
  container.append(say, another, body);
  return { say, another, lenses, body, of: null, chosen: -1, sides: null, grid: null, selected: null };
}

/** Another token, or another text: drawn anew. */
function renew(parts, lensed) {
  Object.assign(parts, { of: lensed, sides: h("section", {}), grid: h("section", {}) });
  const { lens, layer } = parts.selected ?? { lens: lensed.lenses[0].name, layer: lensed.layers.length - 1 };
  parts.selected = { lens, token: 0, layer, theme: "" };
  parts.body.replaceChildren(parts.sides, h("p", {}, parts.lenses), parts.grid);
}

/** @param {{ name: string, title: string }} lens @param {Selected} selected @param {(change: any) => void} set */
function choice({ name, title }, selected, set) {
  const pressed = { type: "button", "aria-pressed": String(name === selected.lens) };
  return h("button", { ...pressed, onclick: () => set({ lens: name }) }, title);
}
