// @ts-check
// Two sides and their difference, layers by tokens: of two sentences, two models or two measures.

import { aligned } from "../core/align.js";
import { called, estimated, farthest, plane, values } from "../core/data.js";
import { drawing, grids } from "../core/grid.js";
import { layersByTokens } from "./layers.js";
import { limit, number, percent } from "../core/scale.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {import("../core/data.js").Field} Field
 * @typedef {{ data: Data, field: Field, heading: string }} Side
 * @typedef {{ partner: Int32Array, first: Float32Array, second: Float32Array, difference: Float32Array,
 *   drawn: Float32Array, token: number }} Contrast  `token` is the partner of the chosen one, `drawn` the difference
 *   without what may be chance
 */

const SURE = 2; // standard errors of a difference: what is smaller may be chance, and is left blank
const CHANCE = "no more than the two estimates may be off by", // chance is no finding
  UNSURE = "No number differs by more than its estimates may be off by.",
  SAME = "All numbers are the same on both sides.",
  INCOMPARABLE = "Nothing here can be compared.";

// The layer of another model at the same depth.
export function level(layer, from, to) {
  return from === to ? layer : Math.max(Math.round(((layer + 1) / from) * to) - 1, 0);
}

/**
 * The numbers of both sides, and the second minus the first where a token has a partner.
 * @param {Side} one @param {Side} other @param {number} chosen @returns {Contrast}
 */
export function contrasted(one, other, chosen) {
  const same = one.data === other.data,
    partner = same ? Int32Array.from(one.data.tokens.keys()) : aligned(one.data.tokens, other.data.tokens);
  const ordinary = Math.max(
    other.data.tokens.findIndex(({ special }) => !special),
    0,
  );
  const token = partner[chosen] >= 0 ? partner[chosen] : ordinary,
    first = values(one.data, one.field, chosen),
    second = values(other.data, other.field, token);
  const width = one.data.tokens.length,
    depths = [one.data.layers.length, other.data.layers.length];
  const difference = first.map((value, place) => {
    const column = partner[place % width],
      layer = level(Math.floor(place / width), depths[0], depths[1]);
    return column < 0 ? NaN : second[layer * other.data.tokens.length + column] - value;
  });
  const [mine, theirs] = [errors(one, chosen), errors(other, token)];
  const drawn = difference.map((value, place) => {
    const layer = level(Math.floor(place / width), depths[0], depths[1]),
      at = layer * other.data.tokens.length + partner[place % width];
    return Math.abs(value) < SURE * Math.hypot(mine?.[place] ?? 0, theirs?.[at] ?? 0) ? NaN : value;
  });
  return { partner, token, first, second, difference, drawn };
}

/**
 * What each number of a side may be off by, its standard error; nothing where it is exact.
 * @param {Side} side @param {number} chosen @returns {Float32Array | null}
 */
function errors({ data, field }, chosen) {
  const found = data.variables[data.errors?.[field.variable]],
    width = data.tokens.length;
  if (!found || field.read === "values") return null;
  const all = new Float32Array(data.layers.length * width);
  for (const layer of data.layers.keys()) {
    const map = plane(found, layer);
    for (let token = 0; token < width; token++)
      all[layer * width + token] = map[(field.read === "row" ? chosen : token) * width + token];
  }
  return all;
}

/**
 * Draws both sides and the difference; the first is the one the selection is about.
 * @param {HTMLElement} body @param {[Side, Side]} sides
 */
export function contrast(body, [one, other], state, palette) {
  const found = contrasted(one, other, state.token),
    { partner, token, first, second, drawn } = found,
    depths = [one.data.layers.length, other.data.layers.length];
  const end = Math.max(limit(first), limit(second)),
    signed = [first, second].some((numbers) => numbers.some((value) => value < 0));
  const mine = ({ layer, token: place }) => state.set({ layer, token: place, source: place });
  const theirs = ({ layer, token: place }) => {
    const back = partner.indexOf(place);
    const moved = back >= 0 ? { token: back, source: back } : {};
    state.set({ layer: level(layer, depths[1], depths[0]), ...moved });
  };
  const there = { layer: level(state.layer, ...depths), token };
  const doubts = [estimate(one), estimate(other)].map(Boolean);
  const both = (colors) => [
    spec(one, colors, { numbers: first, end, signed, estimated: doubts[0], at: state, pick: mine }),
    spec(other, colors, { numbers: second, end, signed, estimated: doubts[1], at: there, pick: theirs }),
  ];
  const minus = (colors) => ({
    ...spec({ ...one, heading: "difference, second minus first" }, colors, {
      ...{ numbers: drawn, end: limit(drawn), signed: true, estimated: doubts.includes(true), at: state, pick: mine },
      none: (at) => (partner[at.token] < 0 ? undefined : CHANCE),
    }),
    columns: replaced(one.data, other.data, partner),
  });
  const specs = farthest(drawn) < 0 ? both : (colors) => [...both(colors), minus(colors)];
  const panes = grids(body, specs(palette), palette);
  const pictures = (colors) => specs(colors).map((drawn, place) => drawing(panes[place], drawn, colors));
  return { ...found, pictures };
}

/** @param {Side} side */
function spec({ data, field, heading }, palette, look) {
  const made = layersByTokens(data, palette, {
    ...{ ...look, percent: field.percent, name: `${heading}, layers by tokens` },
    tell: (at, value) =>
      `, layer ${data.layers[at.layer]}\n${value === "–" ? (look.none?.(at) ?? "has no counterpart") : value}`,
  });
  return { ...made, heading, tall: Math.min(made.tall, 24) };
}

// Column names that say what a token became.
function replaced(one, other, partner) {
  return one.tokens.map((token, place) => {
    const found = one === other ? null : other.tokens[partner[place]],
      changed = found && found.text.toLowerCase() !== token.text.toLowerCase();
    return { text: changed ? `${token.shown}→${found.shown}` : token.shown, special: token.special };
  });
}

/**
 * The cell that differs most, as words, of those that differ by more than chance; where there is none, what there is
 * instead; and what estimates may be off by.
 * @param {[Side, Side]} sides @param {Contrast} found
 */
export function most([{ data, field }, other], { first, difference, drawn }) {
  const at = farthest(drawn),
    doubts = [estimate({ data, field }), estimate(other)],
    doubt = doubts.find(Boolean) ?? "",
    [mine, theirs] = doubts.map((said) => (said ? "~" : ""));
  if (at < 0) return { words: "", nothing: farthest(difference) < 0 ? INCOMPARABLE : UNSURE, doubt };
  if (!drawn[at]) return { words: "", nothing: SAME, doubt };
  const [layer, token] = [Math.floor(at / data.tokens.length), at % data.tokens.length],
    format = field.percent ? percent : number;
  const moved = `from ${mine}${format(first[at])} to ${theirs}${format(first[at] + difference[at])}`;
  return { words: `“${called(data, token)}” in layer ${data.layers[layer]}, ${moved}`, nothing: "", doubt };
}

/** What is said of estimates among the numbers of a side. @param {Pick<Side, "data" | "field">} side */
function estimate({ data, field }) {
  return field.read === "values" ? "" : estimated(data, field.variable);
}

/** One row per layer and token of the first side. @param {[Side, Side]} sides @param {Contrast} found */
export function table([one, other], { partner, first, difference }) {
  const width = one.data.tokens.length,
    same = one.field.key === other.field.key,
    names = same ? ["first", "second"] : [one.field.key, other.field.key];
  const line = (at) => {
    const place = at % width,
      there = partner[place] < 0 ? "" : other.data.tokens[partner[place]].text,
      numbers = [first[at], first[at] + difference[at], difference[at]];
    return [one.data.layers[Math.floor(at / width)], place, one.data.tokens[place].text, there, ...numbers];
  };
  const header = ["layer", "place", "token", "other_token", ...names, "difference"];
  return { header, rows: Array.from(first.keys(), line) };
}
