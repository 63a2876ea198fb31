// @ts-check
// What the page of a prediction computes: a row of sources, the end of its scale, spans, and what is largest.

import { plane, said } from "./data.js";
import { nice, percent } from "./scale.js";
import { partsOf } from "./story.js";

/**
 * @typedef {import("./data.js").Data} Data
 * @typedef {{ position: number, token: string, at: string, chance: string, logit: number, rank: number | null,
 *   place: number, against: string, alternatives: [string, number][], ids: number[], settled: number | null,
 *   finding: string, title: string, because: string, depth: number[] | null, bias: number[],
 *   sizes: (number | null)[] }} Predicted  `place` is where its token stands in the text, -1 where it does not; `sizes`
 *   by layer what the sizes of its parts add up to, null where some cancel
 * @typedef {{ name: string, title: string, by: "sum" | "length", most: string, key: string, meaning: string }} Shade
 * @typedef {{ text: string, shown: string, read: string, word: string, special: boolean, gap: boolean, line: boolean,
 *   span: number }} Piece  a token of the text: `read` as people read it, `gap` a space before, `line` a break behind
 * @typedef {{ blocks: number[], components: string[], values: number[][][] }} Heat
 * @typedef {Omit<Data, "tokens"> & { tokens: Piece[], predicted: Predicted[], spans: string[], shades: Shade[],
 *   heat: Heat | null, scene: import("./patches.js").Scene | null, words: Record<string, string>,
 *   layer_names: string[] }} Explained  `layer_names` where layers are those of two stacks
 * @typedef {{ at: number, layer: number, shade: Shade, one: Predicted, row: Float32Array, sink: number, end: number,
 *   signed: boolean, format(value: number): string }} Chosen  what is selected, and its numbers by source
 * @typedef {{ name: string, value: number, share: number | null, sink: boolean }} Span
 */

/**
 * @param {Explained} data @param {{ token: number, layer: number, show: string }} state @returns {Chosen}
 */
export function choice(data, state) {
  const shade = data.shades.find(({ name }) => name === state.show) ?? data.shades[0],
    at = predictionAt(data, state.token);
  const variable = data.variables[shade.name],
    layers = variable.shape[1],
    layer = Math.min(state.layer, layers - 1),
    all = plane(variable, at),
    row = all.subarray(layer * data.tokens.length, (layer + 1) * data.tokens.length),
    input = all.subarray(0, data.tokens.length);
  const one = data.predicted[at],
    sink = layers > 1 ? sinkOf(data, input, one.position) : -1;
  const end = ending(input, sink),
    format = layers > 1 ? decimals(end) : percent;
  return { at, layer, shade, one, row, sink, end, signed: all.some((value) => value < 0), format };
}

/** Which prediction stands at this position; the first where none does. @param {Explained} data @param {number} at */
export function predictionAt({ predicted }, at) {
  return Math.max(
    predicted.findIndex(({ position }) => position === at),
    0,
  );
}

/**
 * The position of the prediction that a place of the text stands for: its own in an answer, else where it is predicted;
 * -1 where nothing is.
 * @param {Explained} data @param {number} at
 */
export function askedAt({ predicted }, at) {
  return predicted.find(({ place, position }) => (place >= 0 ? place : position) === at)?.position ?? -1;
}

/**
 * The first token of a decoder where it holds more of the input than any other; -1 where there is no such sink.
 * @param {Pick<Explained, "causal"> & { texts?: Explained["texts"] }} data @param {Float32Array} input
 * @param {number} position
 */
export function sinkOf({ causal, texts }, input, position) {
  return causal &&
    !texts?.length &&
    position > 0 &&
    input.every((value, at) => !at || Math.abs(value) <= Math.abs(input[0]))
    ? 0
    : -1;
}

/** The end of the scale, the same at every layer: the largest of the input, the sink left out. */
export function ending(input, sink) {
  return nice(Math.max(0, ...input.filter((_, place) => place !== sink).map(Math.abs))) || 1;
}

/**
 * The row by span, the largest size first, without what gave nothing; lengths of a span's tokens go together as the
 * root of the sum of their squares.
 * @param {Pick<Explained, "tokens" | "spans">} data
 * @param {Pick<Chosen, "row" | "shade" | "one" | "layer" | "sink">} chosen
 * @returns {Span[]}
 */
export function bySpan({ tokens, spans }, { row, shade, one, layer, sink }) {
  const found = new Float64Array(spans.length),
    count = new Uint32Array(spans.length);
  for (const [place, { span }] of tokens.entries()) {
    found[span] += shade.by === "length" ? row[place] ** 2 : row[place];
    count[span] += 1;
  }
  const values = shade.by === "length" ? found.map(Math.sqrt) : found,
    whole = shade.by === "sum" ? one.sizes[layer] : null;
  const alone = sink >= 0 && count[tokens[sink].span] === 1 ? tokens[sink].span : -1;
  const all = [...values].map((value, place) => ({
    ...{ name: spans[place], value, sink: place === alone },
    share: whole ? value / whole : null,
  }));
  return all.filter(({ value }) => value).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

/** All layers of what is chosen, layer by layer. @param {Explained} data @param {Chosen} chosen */
export function allLayers(data, { shade, at }) {
  return plane(data.variables[shade.name], at);
}

/** How a layer is spoken of. @param {Explained} data @param {number} layer */
export function layerName({ layers, words, layer_names: names }, layer) {
  if (layers[layer] === 0) return words.embeddings;
  return said(names?.length ? words.of_stack : words.layer, { layer: layers[layer], name: names[layer] });
}

/** Two decimals, or two digits of what is smaller. @param {number} value */
export function decimal(value) {
  const size = Math.abs(value);
  if (size < 0.0005) return "0";
  const shown = size < 0.095 ? String(Number(value.toPrecision(2))) : value.toFixed(size >= 9.995 ? 1 : 2);
  return shown.replace("-", "−");
}

/** Numbers of one picture, all with two decimals unless its largest is small. @param {number} end  of its scale */
export function decimals(end) {
  const fixed = (value) => (Math.abs(value) < 0.005 ? "0" : value.toFixed(Math.abs(value) >= 9.995 ? 1 : 2));
  return end < 0.1 ? decimal : (/** @type {number} */ value) => fixed(value).replace("-", "−");
}

/** A token inside a sentence. @param {string} token */
export function quoted(token) {
  return `“\u2068${token}\u2069”`;
}

/**
 * The parts of a prediction as the first picture tells them, whatever else is chosen.
 * @param {Explained} data @param {number} at  which prediction @param {number} token  the chosen token
 * @returns {import("../views/hero.js").Story}
 */
export function storyOf(data, at, token) {
  const { words, predicted } = data,
    one = predicted[at],
    shade = data.shades[0],
    whole = plane(data.variables[shade.name], at),
    row = whole.subarray(0, data.tokens.length),
    sink = sinkOf(data, row, one.position),
    end = ending(row, sink),
    constant = shade.by === "sum" ? one.bias[0] : 0,
    inText = predicted.some(({ place }) => place >= 0);
  const names = { token: quoted(one.token), against: quoted(one.against), at: quoted(one.at) },
    what = said(one.against ? words.lead : words.logit, names);
  const sunk = sink >= 0 ? said(words.sunk, { sink: words.first, value: decimal(row[sink]) }) : "";
  return {
    scene: data.scene,
    id: JSON.stringify([data.attrs.text, one.position, one.token, one.against]),
    title: one.title,
    strong: [one.token, one.chance],
    because: one.because,
    made: said(words.made, { what }),
    words: data.tokens,
    texts: data.texts,
    parts: partsOf(row, { own: one.position, sink, constant }),
    own: one.rank === null ? -1 : one.position,
    predicted: new Set(inText ? predicted.map(({ place }) => place) : predicted.map(({ position }) => position)),
    ghost: inText || !data.causal ? "" : one.token,
    chosen: token,
    end,
    format: decimals(end),
    legend: [
      ["source", words.source],
      ["own", said(words.own, names)],
      ["constant", words.constants],
      ["against", words.against],
    ],
    constants: words.constants,
    first: words.first,
    terms: data.terms,
    sure: [sunk, shade.by === "sum" ? said(words.sure, { what, value: decimal(one.logit) }) : shade.meaning]
      .filter(Boolean)
      .join(" "),
  };
}
