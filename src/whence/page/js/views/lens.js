// Lens: what the head would say after every layer, and how the stages of the head agree.

import { h, once } from "../core/dom.js";
import { drawing, grid } from "../core/grid.js";
import { number, scale } from "../core/scale.js";

const ROWS = "The same head after every layer",
  AGREE = "Agreement of the stages: Spearman correlation over the vocabulary";

// Draws into the container what is there for this position; gives its drawings and numbers.
export function render(container, data, position, state, palette, draw) {
  const found = data.lens?.find((one) => one.position === position) ?? null;
  const parts = once(container, () => {
    const rows = h("div", { class: "main" }),
      agree = h("div", { class: "main" });
    const first = h("div", { class: "one" }, h("h3", {}, ROWS), rows);
    const second = h("div", { class: "one" }, h("h3", {}, AGREE), agree);
    container.append(first, second);
    return { rows, agree, first, second, at: { row: 0, column: 0 } };
  });
  parts.first.hidden = parts.second.hidden = !found;
  if (!found) return { pictures: () => [], rows: [], also: null };
  const named = {
    token: found.rows.at(-1).best[0],
    rows: found.rows.map((row) => ({ ...row, stage: row.layer === 0 ? "embedding" : `layer ${row.layer}` })),
  };
  const picture = () => draw(named, Math.max(parts.rows.clientWidth, 320), palette, ROWS);
  parts.rows.replaceChildren(picture());
  const spec = agreement(found, parts, palette, () =>
    grid(
      parts.agree,
      agreement(found, parts, palette, () => {}),
      palette,
    ),
  );
  grid(parts.agree, spec, palette);
  return {
    pictures: () => [picture(), drawing(parts.agree, spec, palette)],
    rows: found.rows,
    also: { name: "agreement", table: () => table(found) },
  };
}

function table({ position, stages, spearman }) {
  return {
    header: ["position", "stage", "other_stage", "spearman"],
    rows: stages.flatMap((stage, row) =>
      stages.map((other, column) => [position, stage, other, spearman[row][column]]),
    ),
  };
}

function agreement({ stages, spearman }, parts, palette, again) {
  const labels = stages.map((text) => ({ text }));
  const describe = (row, column) => `${stages[row]} and ${stages[column]}\n${number(spearman[row][column])}`;
  const spec = {
    name: "Stages by stages",
    heading: AGREE,
    labels: "top",
    square: true,
    wide: 46,
    tall: 30,
    rows: labels,
    columns: labels,
    value: (row, column) => spearman[row][column],
    scale: scale(palette, 1, true),
    beyond: false,
    format: number,
    brief: (value) => value.toFixed(2).replace("-", "−"),
    describe,
    selected: parts.at,
    select: (cell) => {
      Object.assign(parts.at, cell);
      again();
    },
  };
  return spec;
}
