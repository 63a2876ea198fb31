// @ts-check
// Bars: the strongest spans of a prediction, its best tokens, and how much of it sits where it is predicted, by layer.

import { MONO, SANS, fitted, svg, textWidth } from "../core/dom.js";
import { percent } from "../core/scale.js";

/**
 * @typedef {import("../core/scale.js").Palette} Palette
 * @typedef {{ name: string, value: number, text: string, share?: string, note?: string }} Bar
 */

const TALL = 24,
  SIZE = 12.5,
  LABEL = 190,
  NUMBER = 56; // the room of a number behind the bars

/**
 * Signed bars from a common zero; what is negative goes to the left, orange and hatched.
 * @param {Bar[]} bars @param {number} width @param {Palette} palette @param {string} title
 */
export function bars(bars, width, palette, title) {
  const label = Math.min(LABEL, width * 0.4, Math.max(...bars.map(({ name }) => textWidth(name, SIZE))) + 4),
    shared = bars.some(({ share }) => share),
    room = width - label - NUMBER * (shared ? 2 : 1) - 8,
    most = Math.max(...bars.map(({ value }) => value), 0),
    least = Math.min(...bars.map(({ value }) => value), 0),
    unit = room / (most - least || 1),
    zero = label + 8 - least * unit,
    height = bars.length * TALL + 4;
  const picture = svg("svg", {
    ...{ width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "data-title": title },
    ...{ "aria-label": `${title}: ${bars.map(({ name, text }) => `${name} ${text}`).join(", ")}` },
    ...{ "font-size": SIZE, "font-family": MONO, fill: palette.ink },
  });
  const hatch = `hatch-${palette.paper.slice(1)}`;
  picture.append(svg("defs", {}, hatching(hatch, palette)));
  for (const [place, { name, value, text, share = "", note }] of bars.entries()) {
    const y = place * TALL,
      long = Math.max(Math.abs(value) * unit, 1),
      x = value < 0 ? zero - long : zero,
      end = { y: y + 17, "text-anchor": "end", "font-family": SANS };
    const fill = value < 0 ? `url(#${hatch})` : note ? palette.line : palette.sequential.at(-4);
    picture.append(
      svg(
        "g",
        {},
        svg("title", {}, `${name}: ${text}${note ? `, ${note}` : ""}`),
        svg("text", { x: 0, y: y + 17, "unicode-bidi": "isolate" }, fitted(name, label, SIZE)),
        svg("rect", { x, y: y + 4, width: long, height: TALL - 8, rx: 2, fill }),
        svg("text", { ...end, x: width - (shared ? NUMBER : 0) }, text),
        svg("text", { ...end, x: width, fill: palette.muted }, share),
      ),
    );
    if (note && long > textWidth(note, 11, SANS) + 12)
      picture.append(
        svg("text", { x: x + 6, y: y + 17, "font-size": 11, "font-family": SANS, fill: palette.ink }, note),
      );
  }
  picture.append(svg("line", { x1: zero, x2: zero, y1: 2, y2: height - 4, stroke: palette.muted }));
  return picture;
}

function hatching(id, palette) {
  const color = palette.diverging[3];
  return svg(
    "pattern",
    { id, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 5, height: 5, fill: palette.diverging[5] }),
    svg("rect", { width: 2, height: 5, fill: color }),
  );
}

const DEPTH = { height: 130, left: 40, bottom: 22, top: 8 };

/**
 * A line over layers with a mark at the chosen one; a click chooses another.
 * @param {number[]} parts @param {number[]} layers @param {number} layer @param {number} width @param {Palette} palette
 * @param {string} title
 */
export function depth(parts, layers, layer, width, palette, title) {
  const { height, left, bottom, top } = DEPTH,
    most = Math.max(1, ...parts),
    least = Math.min(0, ...parts);
  const x = (at) => left + ((width - left - 10) * at) / Math.max(layers.length - 1, 1),
    y = (value) => top + ((height - top - bottom) * (most - value)) / (most - least);
  const picture = svg("svg", {
    ...{ width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "data-title": title },
    ...{ "aria-label": `${title}: ${parts.map((value, at) => `${layers[at]} ${percent(value)}`).join(", ")}` },
    ...{ "font-size": 11, "font-family": SANS, fill: palette.muted },
  });
  for (const value of [0, 0.5, 1])
    picture.append(
      svg("line", { x1: left, x2: width - 10, y1: y(value), y2: y(value), stroke: palette.line }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, percent(value)),
    );
  const points = parts.map((value, at) => `${x(at)},${y(value)}`).join(" ");
  picture.append(svg("polyline", { points, fill: "none", stroke: palette.link, "stroke-width": 2 }));
  const mark = { cx: x(layer), cy: y(parts[layer]), r: 4.5, fill: palette.link, stroke: palette.paper };
  picture.append(svg("circle", { ...mark, "stroke-width": 1.5 }));
  const every = Math.ceil(layers.length / 8);
  for (const [at, name] of layers.entries())
    if (at % every === 0 || at === layers.length - 1)
      picture.append(svg("text", { x: x(at), y: height - 6, "text-anchor": "middle" }, String(name)));
  return picture;
}

/** The layer under a place of the drawing. @param {number} share of its width */
export function layerAt(share, width, count) {
  const at = ((share * width - DEPTH.left) / (width - DEPTH.left - 10)) * (count - 1);
  return Math.min(Math.max(Math.round(at), 0), count - 1);
}
