// @ts-check
// Lens: what the head would say after every layer, and how the stages of the head agree.

import { h, once } from "../core/dom.js";
import { drawing, grid, roomIn } from "../core/grid.js";
import { number, scale } from "../core/scale.js";

/** @typedef {import("../core/data.js").Lens} Lens */

/**
 * Draws into the container what is there for this position; gives its drawings and numbers.
 * @param {HTMLElement} container
 * @param {import("../core/data.js").Data} data
 */
export function render(container, data, position, palette, draw) {
  const found = data.lens.find((one) => one.position === position),
    { layers, agreement } = data.lm_head;
  const parts = once(container, () => {
    const [rows, agree] = [h("div", { class: "main" }), h("div", { class: "main" })];
    container.append(h("div", { class: "one" }, h("h3", {}, layers), rows));
    container.append(h("div", { class: "one" }, h("h3", {}, agreement), agree));
    return { rows, agree, at: { row: 0, column: 0 } };
  });
  container.hidden = !found;
  if (!found) return { pictures: () => [], rows: [], also: null };
  const picture = (colors) => draw(found.rows, roomIn(parts.rows, 320), colors, layers);
  parts.rows.replaceChildren(picture(palette));
  const spec = (colors) => ({ ...agreeing(found, parts.at, colors), heading: agreement, select: again });
  const again = (cell) => {
    Object.assign(parts.at, cell);
    grid(parts.agree, spec(palette), palette);
  };
  again(parts.at);
  return {
    pictures: (colors) => [picture(colors), drawing(parts.agree, spec(colors), colors)],
    rows: found.rows,
    also: { name: "agreement", table: () => table(found) },
  };
}

/** @param {Lens} lens */
function table({ position, stages, spearman }) {
  const line = (row, column) => [position, stages[row], stages[column], spearman[row][column]];
  const rows = stages.flatMap((_, row) => stages.map((__, column) => line(row, column)));
  return { header: ["position", "stage", "other_stage", "spearman"], rows };
}

/** @param {Lens} lens @returns {Omit<import("../core/grid.js").Spec, "select">} */
function agreeing({ stages, spearman }, selected, palette) {
  const labels = stages.map((text) => ({ text }));
  return {
    ...{ name: "Stages by stages", labels: "top", square: true, wide: 46, tall: 30, rows: labels, columns: labels },
    value: (row, column) => spearman[row][column],
    ...{ scale: scale(palette, 1, true), beyond: false, format: number, selected: { ...selected } },
    brief: (value) => value.toFixed(2).replace("-", "−"),
    describe: (row, column) => `${stages[row]} and ${stages[column]}\n${number(spearman[row][column])}`,
  };
}
