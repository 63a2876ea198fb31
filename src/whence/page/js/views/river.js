// @ts-check
// How the flow is painted: links as curves, nodes, labels. What is drawn is a list of marks; one function puts them on
// a canvas for the screen, one makes them SVG for leaving it.

import { isBundle, sum } from "../core/bundle.js";
import { SANS, svg } from "../core/dom.js";
import { rowOf } from "./network.js";
import { isWhole, names, outlined, ribbons } from "./ribbons.js";
import { scale } from "../core/scale.js";

/**
 * @typedef {ReturnType<typeof import("../core/layout.js").flowLayout>
 *   & { label(column: import("../core/bundle.js").Column): string }} At
 * @typedef {import("./network.js").Link} Link
 * @typedef {{ net: import("./network.js").Net, kept: Link[], data: import("../core/data.js").Data, state: any,
 *   palette: import("../core/scale.js").Palette, mode: string, sink: boolean,
 *   doubts: Float32Array | null }} Picture  `doubts` are standard errors of what goes back to each input token
 * @typedef {{ path?: string, circle?: number[], box?: number[], round?: number, text?: string, x?: number, y?: number,
 *   turned?: boolean, align?: CanvasTextAlign, fill?: string,
 *   font?: { size: number, family: string, italic?: boolean, bold?: boolean },
 *   stroke?: string, width?: number, alpha?: number }} Mark
 */

const LEVELS = 12,
  MOST = 6000; // links that leave the page, the strongest

/** The picture itself. @param {Picture} picture @param {At} at @returns {Mark[]} */
export function marks(picture, at) {
  const body = isWhole(picture) ? ribbons(picture, at) : [...links(picture, at), ...nodes(picture, at)];
  return [...body, ...rows(picture, at), ...names(picture, at)];
}

/**
 * What is chosen, and what is hovered with its links, on top.
 * @param {Picture} picture @param {At} at @param {import("../core/walk.js").Cell | null} hovered
 * @returns {Mark[]}
 */
export function highlights(picture, at, hovered) {
  const { net, kept, state, palette } = picture;
  if (isWhole(picture)) return hovered?.row === 0 ? [outlined(picture, at, hovered.column)] : [];
  const r = Math.min(Math.max(at.wide / 3, 3.5), 7),
    ring = (row, token, stroke) => ({ circle: [at.x(token), at.y(row), r], stroke, width: 2 }),
    chosen = ring(rowOf(net, state.layer), state.token, palette.ink);
  if (!hovered) return [chosen];
  const { row, column } = hovered;
  const touched = kept.filter(
    ({ from, source, to, target }) => (to === row && target === column) || (from === row && source === column),
  );
  const path = touched.map((link) => curve(link, at)).join("");
  return [chosen, { path, stroke: palette.ink, width: 1.5, alpha: 0.75 }, ring(row, column, palette.muted)];
}

// Links of about the same strength are one stroke: thousands of them stay one frame.
function* links({ kept, palette, sink, state }, at) {
  const most = Math.max(Math.abs(kept.at(-1)?.strength ?? 0), 1e-9),
    levels = new Map();
  for (const link of kept) {
    const level = Math.ceil(Math.sqrt(Math.abs(link.strength) / most) * LEVELS) * Math.sign(link.strength),
      own = link.source === state.token && link.target === state.token,
      kind = level < 0 ? "against" : sink && link.source === 0 ? "constant" : own ? "own" : "source",
      key = `${kind} ${level}`;
    levels.set(key, { kind, level, path: (levels.get(key)?.path ?? "") + curve(link, at) });
  }
  // A level is the root of the share of the strongest: width grows with the share, and thin links stay in sight.
  for (const { kind, level, path } of levels.values()) {
    const share = Math.abs(level) / LEVELS;
    yield { path, stroke: palette[kind], width: 0.8 + 7.2 * share ** 2, alpha: 0.25 + 0.65 * share };
  }
}

function curve({ from, source, to, target }, at) {
  const [x1, y1, x2, y2] = [at.x(source), at.y(from), at.x(target), at.y(to)].map((value) => value.toFixed(1)),
    middle = ((at.y(from) + at.y(to)) / 2).toFixed(1);
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
}

// A node is as dark as the root of the share that goes through it: a hundredth and a tenth are told apart. Those that
// nothing goes through are points; a sink is one node from the input to the top.
function* nodes({ net, data, palette, mode, sink }, at) {
  const shade = scale(palette, 1, false),
    radius = Math.min(Math.max(at.wide / 5, 1.2), 4.5);
  for (const row of net.rows.keys())
    for (const column of at.columns) {
      const { first, end } = column;
      if (sink && first === 0) continue;
      const reached = mode === "into" ? Math.abs(sum(net.reach[row], first, end)) : 0,
        seen = reached > 0.005,
        fill = seen ? shade.color(Math.max(Math.sqrt(reached), 0.15)) : palette.paper,
        line = data.tokens[first].special || isBundle(column) ? palette.line : palette.special;
      const small = mode === "into" && !seen;
      yield {
        circle: [at.x(first), at.y(row), small ? 1.4 : radius],
        fill: small ? palette.line : fill,
        stroke: small ? "" : line,
        width: 1,
      };
    }
  if (!sink) return;
  const [top, foot] = [at.y(net.rows.length - 1), at.y(0)];
  yield {
    box: [at.x(0) - 8, top - 6, 16, foot - top + 12],
    round: 8,
    fill: palette.soft,
    stroke: palette.special,
    width: 1.25,
  };
}

/**
 * What rows are called, and what the first token is where it is a sink.
 * @param {Picture} picture @param {At} at @returns {Generator<Mark>}
 */
function* rows({ net, palette, sink, data }, at) {
  const font = { size: 11, family: SANS },
    fill = palette.muted,
    x = at.left - 10;
  for (let row = 0; row < net.rows.length; row += Math.ceil(13 / at.tall)) {
    const text = row === 0 ? "input" : String(net.rows[row]);
    if (row === 0 || net.layers.length > 1) yield { text, x, y: at.y(row) + 4, align: "right", font, fill };
  }
  if (!sink) return;
  const where =
    net.layers.length > 1
      ? { x: at.x(0) + 4, y: at.y(net.rows.length / 2), turned: true }
      : { x: at.x(0), y: at.y(0) - 8 };
  yield {
    text: data.sinks.words.label,
    ...where,
    align: "center",
    font: { ...font, italic: true },
    fill: palette.special,
  };
}

/** On a canvas. @param {HTMLCanvasElement} canvas @param {Mark[]} list @param {At} at */
export function paint(canvas, list, at) {
  const sharp = Math.max(devicePixelRatio, 1),
    [wide, high] = [Math.round(at.width * sharp), Math.round(at.height * sharp)];
  if (canvas.width !== wide || canvas.height !== high) {
    Object.assign(canvas, { width: wide, height: high });
    Object.assign(canvas.style, { width: `${at.width}px`, height: `${at.height}px` });
  }
  const brush = canvas.getContext("2d");
  brush.setTransform(sharp, 0, 0, sharp, 0, 0);
  brush.clearRect(0, 0, at.width, at.height);
  for (const mark of list) {
    brush.save();
    stroke(brush, mark);
    brush.restore();
  }
}

/** @param {CanvasRenderingContext2D} brush @param {Mark} mark */
function stroke(brush, mark) {
  const { path, circle, box, round = 0, text, x, y, turned, align, font, fill, alpha = 1 } = mark;
  Object.assign(brush, { globalAlpha: alpha, strokeStyle: mark.stroke, lineWidth: mark.width, fillStyle: fill });
  if (text !== undefined) {
    brush.font = `${font.italic ? "italic " : ""}${font.bold ? "bold " : ""}${font.size}px ${font.family}`;
    brush.textAlign = align;
    brush.translate(x, y);
    if (turned) brush.rotate(-Math.PI / 2);
    return brush.fillText(text, 0, 0);
  }
  const shape = new Path2D(path);
  if (circle) shape.arc(circle[0], circle[1], circle[2], 0, 2 * Math.PI);
  if (box) shape.roundRect(box[0], box[1], box[2], box[3], round);
  if (fill) brush.fill(shape);
  if (mark.stroke) brush.stroke(shape);
}

/** As SVG; of very many links only the strongest. @param {Picture} picture @param {At} at */
export function vector(picture, at) {
  const { width, height } = at,
    strong = { ...picture, kept: picture.kept.slice(-MOST) };
  const drawn = [...marks(strong, at), ...highlights(strong, at, null)].map(element);
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": SANS }, ...drawn);
}

const ANCHORS = { left: "start", center: "middle", right: "end" };

/** @param {Mark} mark */
function element({
  path,
  circle,
  box,
  round,
  text,
  x,
  y,
  turned,
  align,
  font,
  fill = "none",
  stroke: line,
  width,
  alpha,
}) {
  const look = { fill, stroke: line || null, "stroke-width": line ? width.toFixed(2) : null, opacity: alpha };
  const number = (value) => Number(value.toFixed(2));
  if (path !== undefined) return svg("path", { d: path, ...look });
  if (circle) return svg("circle", { cx: circle[0].toFixed(1), cy: circle[1].toFixed(1), r: circle[2], ...look });
  if (box) {
    const [left, top, wide, high] = box.map(number);
    return svg("rect", { x: left, y: top, width: wide, height: high, rx: round, ...look });
  }
  const where = turned
    ? { transform: `translate(${number(x)} ${number(y)}) rotate(-90)` }
    : { x: number(x), y: number(y) };
  const type = { "font-size": font.size, "font-family": font.family, "text-anchor": ANCHORS[align] };
  const style = { "font-style": font.italic && "italic", "font-weight": font.bold && 600 };
  return svg("text", { ...where, ...type, ...style, fill, "unicode-bidi": "isolate" }, text);
}
