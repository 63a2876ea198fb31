// @ts-check
// Means by layer, one line per measure; layers are rows, as in the grid beside it.

import { SANS, fitted, svg } from "../core/dom.js";
import { height as rowHeight } from "../core/layout.js";

/** @typedef {{ key: string, label: string, group: string, by: number[], style: string, dashed: boolean }} Line */

const LEFT = 36,
  WIDE = 220,
  TOP = 18,
  KEY = 16;

/** Groups as they come first, the lines of each one after the other. @param {Line[]} lines */
export function grouped(lines) {
  const groups = [...new Set(lines.map(({ group }) => group))];
  return groups.flatMap((name) => lines.filter(({ group }) => group === name));
}

/**
 * The chosen layer and one line stand out.
 * @param {import("../core/data.js").Data} data @param {Line[]} all @param {number} chosen
 * @param {string} emphasis @param {import("../core/scale.js").Palette} palette
 */
export function draw({ layers }, all, chosen, emphasis, palette) {
  const lines = grouped(all),
    tall = rowHeight(layers.length),
    down = layers.length * tall,
    width = LEFT + WIDE + 60,
    groups = new Set(lines.map((line) => line.group)),
    height = TOP + down + 26 + (lines.length + groups.size) * KEY + 6;
  const x = (share) => LEFT + share * WIDE,
    y = (layer) => TOP + down - (layer + 0.5) * tall;
  const about = `Mean by layer: ${lines.map((line) => line.label).join("; ")}`;
  const picture = svg("svg", {
    ...{ width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": about },
    ...{ "font-family": SANS, "font-size": 11, fill: palette.muted },
  });
  picture.append(svg("rect", { x: LEFT, y: y(chosen) - tall / 2, width: WIDE, height: tall, fill: palette.soft }));
  picture.append(...axes(layers, tall, x, y, palette));
  for (const line of lines) picture.append(...drawn(line, look(line, line.key === emphasis, palette), x, y));
  picture.append(...key(lines, emphasis, TOP + down + 18, width, palette));
  return picture;
}

function look({ style, dashed }, strong, palette) {
  const color = palette.measures[style] ?? palette.muted,
    dash = dashed ? "5 3" : null;
  return { stroke: color, fill: "none", "stroke-width": strong ? 3 : 1.75, "stroke-dasharray": dash };
}

function* axes(layers, tall, x, y, palette) {
  const bottom = TOP + layers.length * tall;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    yield svg("line", { x1: x(share), x2: x(share), y1: TOP, y2: bottom, stroke: palette.line });
    if (share % 0.5 === 0)
      yield svg("text", { x: x(share), y: bottom + 14, "text-anchor": "middle" }, `${share * 100}\u00a0%`);
  }
  yield svg("text", { x: LEFT - 6, y: 12, "text-anchor": "end" }, "layer");
  yield svg("text", { x: LEFT, y: 12 }, "mean over tokens");
  for (let layer = 0; layer < layers.length; layer += Math.ceil(13 / tall))
    yield svg("text", { x: LEFT - 6, y: y(layer) + 4, "text-anchor": "end" }, String(layers[layer]));
}

function drawn({ by }, line, x, y) {
  const points = [...by.entries()].filter(([, share]) => Number.isFinite(share)),
    path = points.map(([layer, share]) => `${x(share)},${y(layer)}`).join(" "),
    r = line["stroke-width"] === 3 ? 3 : 2;
  return [
    svg("polyline", { ...line, points: path, "stroke-linejoin": "round" }),
    ...points.map(([layer, share]) => svg("circle", { cx: x(share), cy: y(layer), r, fill: line.stroke })),
  ];
}

function* key(lines, emphasis, below, width, palette) {
  for (const [place, line] of lines.entries()) {
    const strong = line.key === emphasis;
    if (line.group !== lines[place - 1]?.group) yield svg("text", { x: LEFT, y: (below += KEY) }, line.group);
    below += KEY;
    yield svg("line", { x1: LEFT, x2: LEFT + 18, y1: below - 4, y2: below - 4, ...look(line, strong, palette) });
    const bold = strong ? { fill: palette.ink, "font-weight": 600 } : {};
    yield svg("text", { x: LEFT + 24, y: below, ...bold }, fitted(line.label, width - LEFT - 44, 11, SANS));
  }
}
