// @ts-check
// Layers by tokens: the grid that three views share, the last layer on top.

import { border, called } from "../core/data.js";
import { height } from "../core/layout.js";
import { limit, number, percent, scale } from "../core/scale.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {{ layer: number, token: number }} At
 * @typedef {{ numbers: Float32Array, percent: boolean, estimated?: boolean, signed?: boolean, end?: number,
 *   name: string, at: At, tell(at: At, value: string): string, pick(at: At): void }} Look  `numbers` layer by layer
 */

/**
 * @param {Data} data
 * @param {import("../core/scale.js").Palette} palette
 * @param {Look} look
 * @returns {import("../core/grid.js").Spec}
 */
export function layersByTokens(data, palette, { numbers, percent: shares, name, at, tell, pick, ...look }) {
  const depth = data.layers.length,
    width = data.tokens.length,
    format = shares ? percent : number;
  const end = look.end ?? limit(numbers),
    signed = look.signed ?? numbers.some((value) => value < 0);
  const cell = ({ layer, token }) => ({ row: depth - 1 - layer, column: token }),
    back = ({ row, column }) => ({ layer: depth - 1 - row, token: column });
  const value = (row, column) => numbers[(depth - 1 - row) * width + column];
  return {
    ...{ name, corner: "layer", labels: "bottom", wide: 72, tall: height(depth), value, values: numbers, format },
    rows: data.layers.map((layer) => ({ text: String(layer) })).reverse(),
    columns: data.tokens.map(({ shown, special }) => ({ text: shown, special })),
    border: border(data),
    scale: scale(palette, end, signed),
    beyond: numbers.some((found) => Math.abs(found) > end),
    brief: (found) =>
      (look.estimated ? "~" : "") + (shares ? String(Math.round(found * 100) || 0).replace("-", "−") : number(found)),
    describe: (row, column) =>
      `${called(data, column)} (${column})${tell(back({ row, column }), format(value(row, column)))}`,
    selected: cell(at),
    select: (found) => pick(back(found)),
  };
}
