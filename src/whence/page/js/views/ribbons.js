// @ts-check
// What a token goes back to, in one step: a bar of the whole, and from it a ribbon to each source, as wide as its part.

import { isBundle, sum } from "../core/bundle.js";
import { called, cut } from "../core/data.js";
import { MONO, SANS } from "../core/dom.js";
import { percent } from "../core/scale.js";

/**
 * @typedef {import("./river.js").Picture} Picture
 * @typedef {import("./river.js").At} At
 * @typedef {import("./river.js").Mark} Mark
 * @typedef {{ column: import("../core/bundle.js").Column, kind: "source" | "own" | "constant", share: number,
 *   top: number[], foot: number[], soft: number }} Ribbon  where it begins and ends in the bar, and below; `soft` are
 *   the pixels by which an edge may be off
 */

export const ABOVE = 40; // pixels for the name of the token, over its bar
const BAR = 10,
  FOOT = 5,
  LEAST = 0.8, // pixels of the thinnest ribbon
  SURE = 2; // standard errors within which the width of a ribbon lies

/** Whether the parts add up to the whole, so that widths can say it. @param {Picture} picture */
export function isWhole({ net, mode }) {
  return net.layers.length === 1 && mode === "into" && net.input.every((share) => !(share < 0));
}

/**
 * Where every ribbon lies; the bar stands over the middle of what it is made of.
 * @param {Picture} picture @param {At} at @returns {Ribbon[]}
 */
export function ribbonsOf({ state, sink, doubts }, at) {
  const { columns, unit: whole } = at,
    total = columns.reduce((so, { share }) => so + share, 0) || 1,
    middle = columns.reduce((so, { first, share }) => so + (at.x(first) * share) / total, 0);
  let left = Math.min(Math.max(middle - whole / 2, at.left), at.right - whole);
  return columns.map((column) => {
    const { first, end, share } = column,
      soft = doubts ? (SURE * whole * sum(doubts, first, end)) / 2 : 0,
      wide = (whole * share) / total,
      foot = Math.max(whole * share, LEAST) / 2,
      top = [left, (left += wide)],
      own = first === state.token && !isBundle(column),
      kind = own ? "own" : sink && first === 0 ? "constant" : "source";
    return { column, kind, share, top, foot: [at.x(first) - foot, at.x(first) + foot], soft };
  });
}

/** @param {Picture} picture @param {At} at @returns {Generator<Mark>} */
export function* ribbons(picture, at) {
  const { palette, data, state, net } = picture,
    all = ribbonsOf(picture, at),
    [left, right] = [all[0].top[0], all.at(-1).top[1]];
  for (const { column, kind, share, foot, top, soft } of all) {
    const fill = palette[kind],
      edges = soft ? [-soft, Math.min(soft, (foot[1] - foot[0]) / 2)] : [0];
    const [thin, full] = isBundle(column) ? [0.22, 0.5] : [kind === "source" ? 0.5 : 0.65, 1];
    for (const edge of edges) {
      const [left, right] = [foot[0] + edge, foot[1] - edge];
      yield { path: shape(at, top, [left, right]), fill, alpha: thin / edges.length };
      if (share > 0) yield { box: [left, at.y(0), right - left, FOOT], fill, alpha: full / edges.length };
    }
    if (share > 0) yield { box: [top[0], at.y(1) - BAR, top[1] - top[0], BAR], fill, alpha: full };
  }
  const name = `“${called(data, state.token)}”, layer ${net.rows.at(-1)}`,
    font = { size: 13, family: SANS, bold: true };
  yield { box: [left, at.y(1) - BAR, right - left, BAR], stroke: palette.ink, width: 1 };
  const x = Math.min(Math.max((left + right) / 2, at.left + 70), at.width - 78);
  yield { text: cut(name, 60), x, y: at.y(1) - BAR - 8, align: "center", font, fill: palette.ink };
}

/** The ribbon of the column with this token, outlined. @param {Picture} picture @param {At} at */
export function outlined(picture, at, token) {
  const found = ribbonsOf(picture, at)[at.places[token]];
  return { path: shape(at, found.top, found.foot), stroke: picture.palette.ink, width: 1.5 };
}

/**
 * What stands below every column: its share, its name.
 * @param {Picture} picture @param {At} at @returns {Generator<Mark>}
 */
export function* names({ data, net, mode, state, palette, sink, doubts }, at) {
  const small = { size: 11, family: SANS },
    { lying } = at,
    whole = mode === "into" && net.input.every((share) => !(share < 0)); // parts of both signs are no shares
  for (const column of at.columns) {
    const { first, end } = column,
      share = sum(net.input, first, end),
      bundle = isBundle(column),
      x = at.x(first),
      y = at.y(0) + FOOT;
    const { special } = data.tokens[first],
      quiet = bundle || special || (sink && first === 0);
    const font = bundle
      ? { ...small, italic: true }
      : { size: 12, family: MONO, italic: special, bold: first === state.token };
    const turned = !lying,
      /** @type {CanvasTextAlign} */
      align = lying ? "center" : "right",
      left = lying ? x : x + 4,
      [named, counted] = lying ? [y + 17, y + 34] : [y + at.shares + 6, y + 6];
    yield {
      text: at.label(column),
      x: left,
      y: named,
      turned,
      align,
      font,
      fill: quiet ? palette.special : palette.ink,
    };
    if (whole && share >= 0.001)
      yield {
        text: `${doubts ? "~" : ""}${percent(share)}`,
        x: left,
        y: counted,
        turned,
        align,
        font: small,
        fill: palette.muted,
      };
  }
}

/** @param {At} at @param {number[]} bar @param {number[]} below */
function shape(at, bar, below) {
  const [one, other] = bar,
    [left, right] = below;
  const [high, low] = [at.y(1), at.y(0)],
    middle = (high + low) / 2,
    point = (/** @type {number[]} */ ...numbers) => numbers.map((value) => value.toFixed(1)).join(" ");
  return (
    `M${point(one, high)}C${point(one, middle, left, middle, left, low)}L${point(right, low)}` +
    `C${point(right, middle, other, middle, other, high)}Z`
  );
}
