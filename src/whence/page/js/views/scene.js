// @ts-check
// A picture with its patches shaded, or a sound as frames along an axis of time; both can be walked by keys.

import { SANS, h, svg } from "../core/dom.js";
import { roomIn } from "../core/grid.js";
import { columnsOf, frameAt, patch, sizeOf, times, tokensIn } from "../core/patches.js";
import { scale } from "../core/scale.js";
import { walkable } from "../core/walk.js";

/**
 * @typedef {import("../core/patches.js").Scene} Scene
 * @typedef {import("../core/scale.js").Palette} Palette
 * @typedef {object} Shown  what is drawn over the scene
 * @property {ArrayLike<number>} row  a value for every token
 * @property {number} end  of the scale
 * @property {boolean} signed
 * @property {number} chosen  token
 * @property {(place: number) => string} describe
 * @property {(place: number) => void} choose
 */

const VEIL = 0.74, // of the shade over a picture, which stays visible below
  VISIBLE = 0.03, // of the scale: what is smaller is not hatched
  PLAIN = 150, // pixels of the unshaded picture beside it
  WIDEST = 520;

/** @param {HTMLElement} container @param {Scene} scene @param {Shown} shown @param {Palette} palette */
export function render(container, scene, shown, palette) {
  const known = JSON.stringify([scene.kind, scene.pictures]);
  let made = built.get(container);
  if (made?.known !== known) {
    container.replaceChildren();
    container.classList.add("scene");
    built.set(container, (made = { known, frames: build(container, scene) }));
  }
  for (const [number, frame] of made.frames.entries())
    if (scene.kind === "picture") picture(frame, scene, number, shown, palette);
    else sound(frame, scene, shown, palette);
}

/** What is there for pictures. @type {WeakMap<HTMLElement, { known: string, frames: HTMLElement[] }>} */
const built = new WeakMap();

/** @param {HTMLElement} container @param {Scene} scene */
function build(container, { kind, words, pictures }) {
  const look = { class: "cells", tabindex: "0", role: "application", "aria-roledescription": words[kind] };
  return (pictures ?? [{ image: "" }]).map(({ image }) => {
    const frame = h("div", look);
    container.append(frame);
    if (image)
      container.append(
        h(
          "figure",
          { class: "read" },
          h("img", { src: image, alt: "", width: PLAIN }),
          h("figcaption", {}, words.read),
        ),
      );
    return frame;
  });
}

/**
 * @param {HTMLElement} frame @param {Scene} scene @param {number} number @param {Shown} shown @param {Palette} palette
 */
function picture(frame, scene, number, { row, end, signed, chosen, describe, choose }, palette) {
  const about = scene.pictures[number],
    { rows, columns } = about,
    room = Math.min(roomIn(frame.parentElement, 240), WIDEST),
    size = sizeOf(about, scene.pictures.length > 1 ? Math.min(room, 260) : room),
    tokens = tokensIn(scene, number),
    shade = scale(palette, end, signed),
    hatch = `patch-${palette.paper.slice(1)}`;
  const drawing = svg("svg", {
    ...{ width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}` },
    ...{ "aria-hidden": "true", "data-title": scene.words.picture },
  });
  drawing.append(svg("defs", {}, grey(`${hatch}-grey`), hatching(hatch, palette)));
  if (about.image)
    drawing.append(
      svg("image", { href: about.image, ...size, preserveAspectRatio: "none", filter: `url(#${hatch}-grey)` }),
    );
  for (const [at, token] of tokens.entries()) {
    if (token < 0) continue;
    const box = patch(about, size, Math.floor(at / columns), at % columns),
      fill = shade.color(row[token] || 0);
    drawing.append(svg("rect", { ...box, fill, "fill-opacity": about.image ? VEIL : 1 }));
    if (row[token] < -VISIBLE * end) drawing.append(svg("rect", { ...box, fill: `url(#${hatch})` }));
  }
  const here = Math.max(tokens.indexOf(chosen), 0),
    cell = { row: Math.floor(here / columns), column: here % columns };
  if (tokens[here] === chosen) drawing.append(...outlined(patch(about, size, cell.row, cell.column), palette));
  frame.replaceChildren(drawing);
  const token = (at) => tokens[at.row * columns + at.column],
    say = (at) => (token(at) < 0 ? "" : describe(token(at)));
  frame.setAttribute("aria-label", `${scene.words.picture}. Arrow keys move; ${say(cell)}`);
  const inside = (value, count) => Math.min(Math.max(Math.floor(value), 0), count - 1);
  walkable(frame, {
    at: {
      width: size.width,
      find: (x, y) => ({
        row: inside((y / size.height) * rows, rows),
        column: inside((x / size.width) * columns, columns),
      }),
    },
    describe: say,
    pick: (at) => token(at) >= 0 && choose(token(at)),
    keys: { here: cell, rows, columns, up: -1, go: (at) => token(at) >= 0 && choose(token(at)) },
  });
}

/** @param {HTMLElement} frame @param {Scene} scene @param {Shown} shown @param {Palette} palette */
function sound(frame, scene, { row, end, chosen, describe, choose }, palette) {
  const width = roomIn(frame.parentElement, 240),
    { bars, zero, height, last, x } = columnsOf(scene.spans, row, end, width),
    drawing = svg("svg", {
      ...{ width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", "font-family": SANS },
      ...{ "font-size": 11, fill: palette.muted, "data-title": scene.words.sound },
    }),
    hatch = `frame-${palette.paper.slice(1)}`;
  drawing.append(svg("defs", {}, hatching(hatch, palette)));
  for (const [place, bar] of bars.entries()) {
    if (place === chosen)
      drawing.append(svg("rect", { ...bar, y: 0, height: height - 22, fill: palette.line, "fill-opacity": 0.8 }));
    drawing.append(svg("rect", { ...bar, fill: row[place] < 0 ? palette.against : palette.source }));
    if (row[place] < 0 && bar.width > 3) drawing.append(svg("rect", { ...bar, fill: `url(#${hatch})` }));
  }
  drawing.append(svg("line", { x1: 0, x2: width, y1: zero, y2: zero, stroke: palette.muted }));
  const marks = times(last);
  for (const [at, time] of marks.entries()) {
    const name = at + 1 === marks.length ? `${time} ${scene.words.seconds}` : String(time),
      anchor = at === 0 ? "start" : x(time) > width - 60 ? "end" : "middle";
    drawing.append(svg("text", { x: x(time), y: height - 6, "text-anchor": anchor }, name));
    drawing.append(svg("line", { x1: x(time), x2: x(time), y1: height - 20, y2: height - 16, stroke: palette.muted }));
  }
  frame.replaceChildren(drawing);
  const here = Math.max(chosen, 0);
  frame.setAttribute("aria-label", `${scene.words.sound}. Arrow keys move; ${describe(here)}`);
  walkable(frame, {
    at: { width, find: (left) => ({ row: 0, column: frameAt(scene.spans, Math.min(Math.max(left / width, 0), 1)) }) },
    describe: (at) => describe(at.column),
    pick: (at) => choose(at.column),
    keys: { here: { row: 0, column: here }, rows: 1, columns: bars.length, go: (at) => choose(at.column) },
  });
}

/** Seen on light and dark patches. @param {import("../core/patches.js").Box} box @param {Palette} palette */
function outlined({ x, y, width, height }, palette) {
  const box = (by) => ({ x: x + by, y: y + by, width: width - 2 * by, height: height - 2 * by, fill: "none" });
  return [
    svg("rect", { ...box(1), stroke: palette.paper, "stroke-width": 4 }),
    svg("rect", { ...box(1), stroke: palette.ink, "stroke-width": 2 }),
  ];
}

function grey(id) {
  return svg("filter", { id }, svg("feColorMatrix", { type: "saturate", values: "0.15" }));
}

/** @param {string} id @param {Palette} palette */
function hatching(id, palette) {
  return svg(
    "pattern",
    { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 1.6, height: 6, fill: palette.against, "fill-opacity": 0.55 }),
  );
}
