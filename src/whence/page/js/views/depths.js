// @ts-check
// Where the parts of a prediction sit, layer by layer: layers by tokens, on the scale of the first picture.

import { allLayers, layerName } from "../core/explained.js";
import { drawing, grid } from "../core/grid.js";
import { layersByTokens } from "./layers.js";

/**
 * @param {HTMLElement} container @param {import("../core/explained.js").Explained} data
 * @param {import("../core/explained.js").Chosen} chosen @param {import("../core/scale.js").Palette} palette
 * @param {(layer: number) => void} pick
 */
export function render(container, data, chosen, palette, pick) {
  const numbers = allLayers(data, chosen),
    { one, layer, end, signed, format } = chosen,
    { layer_names: names } = data,
    cell = { token: Number(container.dataset.token ?? Math.max(one.position, 0)), layer };
  const spec = (colors) => ({
    ...layersByTokens(/** @type {any} */ (data), colors, {
      ...{ numbers, signed, end, percent: false, name: data.words.depths, at: cell },
      tell: (at) => `, ${layerName(data, at.layer)}\n${format(numbers[at.layer * data.tokens.length + at.token])}`,
      pick: (at) => {
        container.dataset.token = String(at.token);
        pick(at.layer);
      },
    }),
    heading: data.words.depths,
    ...(names?.length ? { rows: names.map((text) => ({ text })).reverse() } : {}),
    columns: data.tokens.map(({ read, special }) => ({ text: read, special })),
    brief: (value) => (Math.abs(value) < 0.005 ? "0" : value.toFixed(2).replace("-", "−")),
    format,
    marked: one.position,
    least: 40, // a sign and two decimals
  });
  grid(container, spec(palette), palette);
  return (colors) => [drawing(container, spec(colors), colors)];
}
