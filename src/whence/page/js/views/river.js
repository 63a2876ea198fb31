// @ts-check
// How the flow is painted: links as curves, nodes, labels. What is drawn is a list of marks; one function puts them on
// a canvas for the screen, one makes them SVG for leaving it.

import { MONO, SANS, fitted, svg } from "../core/dom.js";
import { LONGEST } from "../core/layout.js";
import { rowOf } from "./network.js";
import { percent, scale } from "../core/scale.js";

/**
 * @typedef {ReturnType<typeof import("../core/layout.js").flowLayout>} At
 * @typedef {import("./network.js").Link} Link
 * @typedef {{ net: import("./network.js").Net, kept: Link[], data: import("../core/data.js").Data, state: any,
 *   palette: import("../core/scale.js").Palette, mode: string, compact: boolean, around: number[] | null }} Picture
 * @typedef {{ path?: string, circle?: number[], box?: number[], text?: string, x?: number, y?: number,
 *   turned?: boolean, align?: CanvasTextAlign, fill?: string,
 *   font?: { size: number, family: string, italic?: boolean, bold?: boolean },
 *   stroke?: string, width?: number, alpha?: number }} Mark
 */

const LEVELS = 12,
  LEAST = 0.0005, // of a share that is written
  MOST = 6000; // links that leave the page, the strongest

/** The picture itself. @param {Picture} picture @param {At} at @returns {Mark[]} */
export function marks(picture, at) {
  return [...links(picture, at), ...nodes(picture, at), ...letters(picture, at)];
}

/**
 * What is chosen, and what is hovered with its links, on top.
 * @param {Picture} picture @param {At} at @param {import("../core/walk.js").Cell | null} hovered
 * @returns {Mark[]}
 */
export function highlights({ net, kept, state, palette }, at, hovered) {
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
function* links({ kept, palette }, at) {
  const most = Math.max(Math.abs(kept.at(-1)?.strength ?? 0), 1e-9),
    levels = new Map();
  for (const link of kept) {
    const level = Math.ceil(Math.sqrt(Math.abs(link.strength) / most) * LEVELS) * Math.sign(link.strength);
    levels.set(level, (levels.get(level) ?? "") + curve(link, at));
  }
  // A level is the root of the share of the strongest: width grows with the share, and thin links stay in sight.
  for (const [level, path] of levels) {
    const share = Math.abs(level) / LEVELS,
      stroke = level < 0 ? palette.diverging[2] : palette.diverging.at(-3);
    yield { path, stroke, width: 0.8 + 7.2 * share ** 2, alpha: 0.2 + 0.65 * share };
  }
}

function curve({ from, source, to, target }, at) {
  const [x1, y1, x2, y2] = [at.x(source), at.y(from), at.x(target), at.y(to)].map((value) => value.toFixed(1)),
    middle = ((at.y(from) + at.y(to)) / 2).toFixed(1);
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
}

// A node is as dark as the root of the share that goes through it: a hundredth and a tenth are told apart.
function* nodes({ net, data, palette, mode }, at) {
  const shade = scale(palette, 1, false),
    radius = Math.min(Math.max(at.wide / 5, 1.2), 4.5);
  for (const row of net.rows.keys())
    for (let token = at.first; token < at.end; token++) {
      const reached = mode === "into" ? Math.abs(net.reach[row][token]) : 0,
        fill = reached > 0.005 ? shade.color(Math.max(Math.sqrt(reached), 0.15)) : palette.paper,
        line = data.tokens[token].special ? palette.line : palette.special;
      yield { circle: [at.x(token), at.y(row), radius], fill, stroke: radius > 1.5 ? line : "", width: 1 };
    }
}

/** @param {Picture} picture @param {At} at @returns {Generator<Mark>} */
function* letters({ net, data, state, palette, mode, compact, around }, at) {
  const small = { size: 11, family: SANS };
  for (let row = 0; row < net.rows.length; row += Math.ceil(13 / at.tall)) {
    const text = row === 0 ? "input" : String(net.rows[row]);
    yield { text, x: at.left - 10, y: at.y(row) + 4, align: "right", font: small, fill: palette.muted };
  }
  if (around) {
    const [first, end] = around;
    const box = [at.x(first) - at.wide / 2, 2, (end - first) * at.wide, at.height - 4];
    yield { box, stroke: palette.ink, alpha: 0.5, width: 1 };
  }
  if (compact) return;
  const whole = mode === "into" && net.input.every((share) => !(share < 0)); // parts of both signs are no shares
  for (let token = at.first; token < at.end; token++) {
    const { shown, special } = data.tokens[token];
    const [x, y] = at.lying ? [at.x(token), at.y(0) + 22] : [at.x(token) + 4, at.y(0) + 12];
    yield {
      ...{ text: fitted(shown, at.lying ? at.wide - 2 : LONGEST, 12), x, y, turned: !at.lying },
      align: at.lying ? "center" : "right",
      font: { size: 12, family: MONO, italic: special, bold: token === state.token },
      fill: special ? palette.special : palette.ink,
    };
    const share = net.input[token];
    if (at.lying && whole && share >= LEAST)
      yield { text: percent(share), x, y: y + 17, align: "center", font: small, fill: palette.muted };
  }
}

/**
 * On a canvas; links that come from outside a closer look end at its edge.
 * @param {HTMLCanvasElement} canvas @param {Mark[]} list @param {At} at
 */
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
    stroke(brush, mark, at);
    brush.restore();
  }
}

/** @param {CanvasRenderingContext2D} brush @param {Mark} mark @param {At} at */
function stroke(brush, mark, at) {
  const { path, circle, box, text, x, y, turned, align, font, fill, alpha = 1 } = mark;
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
  if (box) shape.rect(box[0], box[1], box[2], box[3]);
  if (path) {
    brush.rect(at.left - 4, 0, at.width - at.left + 4, at.height);
    brush.clip();
  }
  if (fill) brush.fill(shape);
  if (mark.stroke) brush.stroke(shape);
}

/** As SVG; of very many links only the strongest. @param {Picture} picture @param {At} at */
export function vector(picture, at) {
  const { width, height } = at,
    strongest = { ...picture, kept: picture.kept.slice(-MOST) };
  const drawn = [...marks(strongest, at), ...highlights(strongest, at, null)].map(element);
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": SANS }, ...drawn);
}

/** @param {Mark} mark */
function element({ path, circle, box, text, x, y, turned, align, font, fill = "none", stroke: line, width, alpha }) {
  const look = { fill, stroke: line || null, "stroke-width": line ? width.toFixed(2) : null, "stroke-opacity": alpha };
  if (path !== undefined) return svg("path", { d: path, ...look });
  if (circle) return svg("circle", { cx: circle[0].toFixed(1), cy: circle[1].toFixed(1), r: circle[2], ...look });
  if (box) return svg("rect", { x: box[0], y: box[1], width: box[2], height: box[3], ...look });
  const where = turned ? { transform: `translate(${x} ${y}) rotate(-90)` } : { x, y };
  const type = { "font-family": font.family, "font-size": font.size, "font-style": font.italic ? "italic" : null };
  return svg("text", { ...where, ...type, "text-anchor": align === "center" ? "middle" : "end", fill }, text);
}
