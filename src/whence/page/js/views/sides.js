// @ts-check
// One hidden token from both sides: the input tokens it came from, and its part in every prediction after it.

import { h, once } from "../core/dom.js";
import { inkOn, number, percent, scale } from "../core/scale.js";

/**
 * @typedef {import("../whither.js").Lensed} Lensed
 * @typedef {import("../whither.js").Trace} Trace
 * @typedef {import("../whither.js").Selected} Selected
 * @typedef {import("../core/scale.js").Palette} Palette
 */

const TITLES = { contribution: "Contribution", decomposition_share: "Decomposition" };

/**
 * @param {HTMLElement} container @param {Lensed} data @param {Trace} trace @param {Selected} selected
 * @param {Palette} palette
 */
export function render(container, data, trace, { layer }, palette) {
  const parts = once(container, () => build(container, data, trace));
  parts.heading.textContent = `“${trace.sources[trace.token]}” at layer ${data.layers[layer]}, from both sides`;
  for (const [name, chips] of Object.entries(parts.came)) shaded(chips, trace.came[name][layer], trace.token, palette);
  parts.none.hidden = data.layers[layer] > 0;
  if (trace.given) gave(parts.given, trace.given, layer, palette);
}

/** @param {HTMLElement[]} chips @param {(number | null)[]} row @param {number} own @param {Palette} palette */
function shaded(chips, row, own, palette) {
  const end = Math.max(...row.map((value) => value ?? 0)) || 1,
    shade = scale(palette, end, false);
  for (const [place, chip] of chips.entries()) {
    const value = row[place] ?? 0;
    chip.style.backgroundColor = shade.color(value);
    chip.style.color = inkOn(shade.rgb(value));
    chip.title = `${chip.textContent} (${place}): ${row[place] === null ? "–" : percent(value)}`;
    chip.classList.toggle("at", place === own);
  }
}

/**
 * @param {HTMLElement[]} chips @param {NonNullable<Trace["given"]>} given @param {number} layer
 * @param {Palette} palette
 */
function gave(chips, { tokens, predicted, probability, share, share_of_all: parts }, layer, palette) {
  const end = Math.max(...parts[layer].map(Math.abs)) || 1,
    shade = scale(palette, end, true);
  for (const [place, chip] of chips.entries()) {
    const value = parts[layer][place];
    chip.style.backgroundColor = shade.color(value);
    chip.style.color = inkOn(shade.rgb(value));
    const what = `${tokens[place]} (${percent(probability[place])}), predicted at ${predicted[place]}`;
    chip.title = `${what}: ${number(share[layer][place])} of its logit, ${percent(value)} of all parts`;
  }
}

/** @param {HTMLElement} container @param {Lensed} data @param {Trace} trace */
function build(container, data, trace) {
  const heading = h("h2", {}),
    none = h("p", { class: "subtitle" }, "Layer 0 is the embedding: nothing has come from other tokens yet.");
  /** @type {Record<string, HTMLElement[]>} */
  const came = {};
  const whence = h("div", {}, h("h3", {}, "Whence it came"), none);
  for (const name of Object.keys(trace.came)) {
    came[name] = trace.sources.map((token) => h("span", { class: "token", dir: "auto" }, token));
    const row = h("div", { class: "sentence" }, ...came[name]);
    whence.append(h("p", { class: "subtitle" }, `${TITLES[name]}: ${trace.meaning[name]}.`), row);
  }
  const given = (trace.given?.tokens ?? []).map((token) => h("span", { class: "token", dir: "auto" }, token)),
    key = "Its part in each prediction from there on: blue for the predicted token, orange against it.",
    whither = h("div", {}, h("h3", {}, "Whither it goes"), h("p", { class: "subtitle" }, key));
  whither.append(h("div", { class: "sentence" }, ...given));
  whither.hidden = !trace.given;
  container.append(heading, whence, whither);
  return { heading, none, came, given };
}
