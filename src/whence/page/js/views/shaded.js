// @ts-check
// The text, shaded by what each token gave to the chosen prediction; the answer's tokens can be chosen.

import { said } from "../core/data.js";
import { announce, h, hush, once, tell } from "../core/dom.js";
import { layerName, quoted } from "../core/explained.js";
import { inkOn, number, scale } from "../core/scale.js";
import { placed } from "../core/patches.js";
import { roving } from "../core/walk.js";
import * as scene from "./scene.js";

/**
 * @typedef {import("../core/explained.js").Explained} Explained
 * @typedef {import("../core/explained.js").Chosen} Chosen
 * @typedef {import("../core/scale.js").Palette} Palette
 */

const STEPS = 24,
  VISIBLE = 0.03; // of the scale: what is smaller is not hatched

/**
 * @param {HTMLElement} container @param {Explained} data @param {Chosen} chosen @param {Palette} palette
 * @param {(at: number) => void} choose
 */
export function render(container, data, chosen, palette, choose) {
  const parts = once(container, () => build(container, data));
  const { one, row, sink, signed } = chosen,
    shade = scale(palette, chosen.end, signed),
    shown = data.predicted.map(({ place }) => place);
  answers(parts, data, chosen, choose);
  for (const [place, chip] of parts.chips.entries()) {
    const color = place === sink ? null : shade.rgb(row[place]);
    chip.style.backgroundColor = color ? shade.color(row[place]) : "";
    chip.style.color = color ? inkOn(color) : "";
    chip.classList.toggle("sink", place === sink);
    chip.classList.toggle("against", row[place] < -VISIBLE * chosen.end && place !== sink);
    chip.classList.toggle("at", place === one.position && one.rank !== null);
    if (shown.includes(place)) chip.setAttribute("aria-pressed", String(place === one.place));
    chip.setAttribute("aria-label", describe(data, chosen, place));
    chip.onclick = () => shown.includes(place) && choose(shown.indexOf(place));
    chip.onkeydown = (event) => {
      if (!["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      chip.click();
    };
    chip.onpointermove = (event) => tell(event, describe(data, chosen, place));
  }
  if (data.scene) {
    const over = { row, end: chosen.end, signed, chosen: parts.walked ?? one.position };
    const go = (place) => {
      parts.walked = place;
      const at = data.predicted.findIndex(({ position }) => position === place);
      if (at >= 0) choose(at);
      else render(container, data, chosen, palette, choose);
    };
    scene.render(
      parts.scene,
      data.scene,
      { ...over, describe: (place) => describe(data, chosen, place), choose: go },
      palette,
    );
  }
  roving(parts.text, parts.chips, parts.here, (place) => announce(describe(data, chosen, (parts.here = place))));
  for (const [at, ghost] of parts.ghosts) ghost.hidden = at !== chosen.at && data.predicted.length > 1;
  legend(parts, shade, data, chosen);
}

/** @param {Explained} data @param {Chosen} chosen @param {number} place */
function describe(data, { row, sink, format }, place) {
  return `${data.tokens[place].shown} (${place}): ${format(row[place])}${place === sink ? ", sink" : ""}`;
}

/**
 * The row of predictions, where there are several.
 * @param {ReturnType<typeof build>} parts @param {Explained} data @param {Chosen} chosen
 * @param {(at: number) => void} choose
 */
function answers({ row, asked }, data, chosen, choose) {
  row.parentElement.hidden = asked.length < 2;
  roving(row, asked, chosen.at, choose);
  for (const [at, chip] of asked.entries()) {
    chip.setAttribute("aria-pressed", String(at === chosen.at));
    chip.onclick = () => choose(at);
  }
}

/**
 * @param {ReturnType<typeof build>} parts @param {import("../core/scale.js").Scale} shade @param {Explained} data
 * @param {Chosen} chosen
 */
function legend({ blocks, low, high, key }, shade, data, { one, layer, row, sink, shade: about, signed, format }) {
  const { words } = data,
    from = signed ? -shade.limit : 0;
  for (const [step, block] of blocks.entries())
    block.style.backgroundColor = shade.color(from + ((shade.limit - from) * (step + 0.5)) / STEPS);
  const end = (value) => (data.variables[about.name].shape[1] > 1 ? number(value) : format(value));
  low.textContent = end(from);
  high.textContent = `${row.some((value, at) => at !== sink && value > shade.limit) ? "≥ " : ""}${end(shade.limit)}`;
  const told = [
    said(about.key, { what: what(words, one), token: quoted(one.token), layer: layerName(data, layer) }),
    one.rank === null || one.position < 0 ? "" : words.at,
    sink >= 0 ? said(words.sink, { value: format(row[sink]) }) : "",
  ];
  key.textContent = told.filter(Boolean).join(" ");
}

/** @param {Record<string, string>} words @param {import("../core/explained.js").Predicted} one */
function what(words, { token, against }) {
  return said(against ? words.lead : words.logit, { token: quoted(token), against: quoted(against) });
}

/** @param {HTMLElement} container @param {Explained} data */
function build(container, data) {
  const { words, predicted } = data,
    choose = predicted.some(({ place }) => place >= 0) ? words.answer : words.predictions,
    look = { type: "button", onpointerleave: hush };
  const asked = predicted.map(({ token, chance }) =>
    h(
      "button",
      { ...look, class: "token", dir: "auto", "aria-label": `${token}, ${chance}` },
      token,
      h("small", {}, ` ${chance}`),
    ),
  );
  const shown = new Set(predicted.map(({ place }) => place));
  const chips = data.tokens.map(({ read, special }, place) => {
    const kind = `piece${special ? " special" : ""}${shown.has(place) ? " asked" : ""}`;
    const can = { role: "button", "aria-disabled": shown.has(place) ? null : "true", onpointerleave: hush };
    return h("span", { class: kind, dir: "auto", ...can }, read); // inline: no line breaks inside a word
  });
  /** @type {Map<number, HTMLElement>} */
  const ghosts = new Map();
  const text = h("div", { class: "prose", role: "toolbar", "aria-label": words.text }),
    drawn = placed(data.scene, chips.length),
    picture = h("div", {});
  text.hidden = drawn.every(Boolean);
  for (const [place, chip] of chips.entries()) {
    const title = data.texts.find(({ first }) => first === place)?.title;
    if (title) text.append(h("div", { class: "stack" }, title));
    if (drawn[place]) continue;
    text.append(data.tokens[place].gap && !title ? " " : "", chip);
    for (const [at, one] of predicted.entries())
      if (one.position === place && one.place < 0 && one.rank !== null) {
        ghosts.set(at, h("span", { class: "ghost", dir: "auto" }, `→ ${one.token}`));
        text.append(" ", ghosts.get(at));
      }
    if (data.tokens[place].line) text.append(h("br"));
  }
  const row = h("div", { class: "sentence", role: "toolbar", "aria-label": choose }, ...asked),
    blocks = Array.from({ length: STEPS }, () => h("i", {}));
  const [bar, low, high, key] = [h("span", { class: "ramp" }, ...blocks), h("span"), h("span"), h("span")];
  container.append(h("div", { class: "answers" }, h("h3", {}, choose), row), picture, text);
  container.append(h("p", { class: "subtitle legend" }, h("span", { class: "scale" }, low, bar, high), key));
  return { row, asked, text, chips, ghosts, blocks, low, high, key, here: 0, scene: picture, walked: null };
}
