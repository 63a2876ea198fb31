// @ts-check
// The top of the page: what is predicted and whence it came; where nothing is, whence the chosen token came.

import { called, modelName, part, said, values, wording } from "../core/data.js";
import { h, once } from "../core/dom.js";
import { askedAt, predictionAt, storyOf } from "../core/explained.js";
import { limit } from "../core/scale.js";
import { partsOf } from "../core/story.js";
import * as hero from "./hero.js";
import { finding, sources } from "./whence.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {import("../core/state.js").State} State
 */

const WAITING = "Finding out what is predicted …";

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { picture, below } = once(container, () => build(container));
  below.textContent = about(data);
  const { why } = data;
  const choose = (place) => {
    const at = why ? askedAt(why, place) : -1;
    state.set({ ...(at >= 0 ? { at } : {}), ...(isShared(data, place) ? { token: place, source: place } : {}) });
  };
  const colors = why?.palette[state.shade] ?? { ...palette, diverging: data.signed[state.shade] };
  hero.render(picture, story(data, state), colors, choose);
}

/** @param {Data} data @param {State} state @returns {import("./hero.js").Story} */
function story(data, state) {
  const { why } = data;
  if (!why)
    return state.live?.awaited("hero") || state.live?.awaited("sources")
      ? pending(data, state)
      : fromSources(data, state);
  const position = state.at === "" ? state.token : state.at,
    at = predictionAt(why, position),
    here = why.predicted[at];
  const token = here.place >= 0 && state.at !== "" ? here.place : isShared(data, state.token) ? state.token : -1;
  return storyOf(why, at, token);
}

/**
 * Whether a place of the picture is the same token in all views: a chat or an answer has tokens of its own.
 * @param {Data} data @param {number} place
 */
function isShared({ why, tokens }, place) {
  return !why || why.tokens[place]?.text === tokens[place]?.text;
}

/** @param {Data} data @param {State} state @returns {import("./hero.js").Story} */
function pending(data, { token }) {
  return { ...blank(data, token), title: WAITING, strong: [] };
}

/** @param {Data} data @param {number} token */
function blank(data, token) {
  const words = data.tokens.map((word) => ({
    ...word,
    read: word.shown,
    gap: !word.shown.startsWith("##"),
    line: false,
  }));
  return {
    ...{ id: "", title: data.finding, strong: [], because: "", made: "", words, parts: [], own: -1 },
    texts: data.texts,
    ...{ predicted: new Set(), ghost: "", chosen: token, end: 1, format: String },
    ...{ scene: data.scene ?? null, terms: data.terms, legend: [], constants: "", first: "", sure: "" },
  };
}

/** Where the chosen token came from. @param {Data} data @param {State} state @returns {import("./hero.js").Story} */
function fromSources(data, state) {
  const { token, layer } = state,
    field = sources(data, state);
  if (!field) return blank(data, token);
  const all = values(data, field, token),
    { variable: name } = field,
    row = all.subarray(layer * data.tokens.length, (layer + 1) * data.tokens.length);
  const shading = said(wording(data, name).shade, { token: `“${called(data, token)}”` });
  return {
    ...blank(data, token),
    id: `${data.attrs.text} ${token}`,
    because: finding(data, name, row, state),
    parts: partsOf(row, { own: token, sink: -1, constant: 0 }),
    own: token,
    end: limit(all),
    format: part(data, name),
    made: `${shading} layer ${data.layers[layer]}`,
    sure: `${shading[0].toUpperCase()}${shading.slice(1)} layer ${data.layers[layer]} (${field.title}).`,
  };
}

/** @param {HTMLElement} container */
function build(container) {
  const [picture, below] = [h("div", { class: "hero" }), h("p", { class: "about" })];
  container.append(picture, below);
  return { picture, below };
}

/** @param {Data} data */
function about({ attrs, tokens, layers, heads, causal, texts }) {
  const special = tokens.filter((token) => token.special).length,
    count = attrs.cut_from ? `the first ${tokens.length} of ${attrs.cut_from}` : tokens.length;
  const counts = [
    `${count} tokens${special ? ` (${special} special)` : ""}`,
    `${layers.length} layers`,
    heads ? `${heads} heads` : "",
  ].filter(Boolean);
  const model = [modelName(attrs.model ?? ""), attrs.revision && `@ ${attrs.revision.slice(0, 12)}`]
    .filter(Boolean)
    .join(" ");
  return [model, counts.join(", "), causal && !texts.length ? "a token sees only itself and what is left of it" : ""]
    .filter(Boolean)
    .join(" · ");
}
