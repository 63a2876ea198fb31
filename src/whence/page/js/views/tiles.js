// @ts-check
// One head as a small map: its colours, on one scale with all others, and its pixels.

import { fresh } from "../core/data.js";
import { h, svg } from "../core/dom.js";
import { lookup, pooled } from "../core/pixels.js";
import { limit, scale } from "../core/scale.js";

/**
 * @typedef {{ shade: import("../core/scale.js").Scale, end: number, signed: boolean, beyond: boolean }} Shades
 */

/** Where the strip beside a tile is drawn: one piece for each run of rows that are marked. */
export function* strips(rows, side) {
  for (const { index, 0: run } of rows.matchAll(/1+/g))
    yield { top: (index / rows.length) * side, high: (run.length / rows.length) * side };
}

/** One scale for all heads. @returns {Shades} */
export function shading(data, name, palette) {
  const { signed } = data.variables[name],
    some = sample(data, name),
    end = limit(some);
  return { shade: scale(palette, end, signed), end, signed, beyond: some.some((value) => Math.abs(value) > end) };
}

// Paints a head into a canvas of one pixel per cell or block of cells, the same canvas every time.
export function painter(width, { shade }, side) {
  const fine = Math.min(width, Math.max(Math.round(side), 1)),
    tile = h("canvas", { width: fine, height: fine }),
    brush = tile.getContext("2d"),
    color = lookup(shade);
  const pixels = brush.createImageData(fine, fine),
    words = new Uint32Array(pixels.data.buffer),
    whole = { firstRow: 0, firstColumn: 0, down: width, across: width };
  return (values) => {
    const few = fine < width ? pooled((row, column) => values[row * width + column], whole, fine).values : values;
    for (let at = 0; at < few.length; at++) words[at] = color(few[at]);
    brush.putImageData(pixels, 0, 0);
    return tile;
  };
}

/** A head cell by cell. @param {Float32Array} values @param {number} width @param {Shades} shades */
export function cells(values, width, { shade }) {
  const group = svg("g", { "shape-rendering": "crispEdges" });
  for (const [at, value] of values.entries()) {
    const where = { x: at % width, y: Math.floor(at / width), width: 1, height: 1 };
    if (Number.isFinite(value)) group.append(svg("rect", { ...where, fill: shade.color(value) }));
  }
  return group;
}

// Some values of some heads; the steps share no factor with a row, else the same columns would come again and again.
function sample(data, name) {
  const parts = [],
    count = data.layers.length * data.heads,
    width = data.tokens.length;
  const step = coprime(Math.ceil(width ** 2 / 4000), width);
  for (let at = 0; at < count; at += coprime(Math.max(Math.floor(count / 24), 1), data.heads)) {
    const values = fresh(data, name, Math.floor(at / data.heads), at % data.heads);
    parts.push(...values.filter((_, place) => place % step === 0));
  }
  return Float32Array.from(parts);
}

// The least number from `step` on that has no factor in common with `width`.
function coprime(step, width) {
  const common = (one, other) => (other ? common(other, one % other) : one);
  while (common(step, width) > 1) step += 1;
  return step;
}
