// @ts-check
// A grid of coloured cells with labels: drawn as SVG, read by hovering, walked with the arrow keys.

import { MONO, SANS, fitted, h, once, svg, textWidth } from "./dom.js";
import { LONGEST, closer, gridLayout, isCompact } from "./layout.js";
import { bands, lookup, pooled } from "./pixels.js";
import { inkOn } from "./scale.js";
import { walkable } from "./walk.js";

/**
 * @typedef {import("./walk.js").Cell} Cell
 * @typedef {import("./scale.js").Palette} Palette
 * @typedef {ReturnType<typeof gridLayout>} At
 * @typedef {{ text: string, special?: boolean }} Label
 * @typedef {object} Spec  what a grid shows
 * @property {string} name
 * @property {string} [heading]
 * @property {string} [corner]
 * @property {"top" | "bottom"} labels
 * @property {boolean} [square]
 * @property {number} [least]  pixels that a cell needs for its number
 * @property {number} wide  the largest cell
 * @property {number} tall
 * @property {Label[]} rows
 * @property {Label[]} columns
 * @property {(row: number, column: number) => number} value
 * @property {Float32Array} [values]  behind value(), where the same array is drawn again and again
 * @property {boolean} [numbers]  false for none in the cells
 * @property {import("./scale.js").Scale} scale
 * @property {boolean} beyond  whether there are values past the end of the scale
 * @property {(value: number) => string} format
 * @property {(value: number) => string} brief
 * @property {(row: number, column: number) => string} describe
 * @property {{ title: string, text(row: number): string }} [side]
 * @property {{ word: string, rows: string }} [flagged]  rows marked at the right, as 0 and 1, and by which word
 * @property {Cell} selected
 * @property {(cell: Cell) => void} select
 * @property {number} [marked]  a column to point at
 * @property {number} [border]  the column before which another text begins; in a square the row, too
 */

const MOST_CELLS = 1500,
  MOST_SMALL = 300; // more cells than this become one image on screen; without numbers sooner
const BAND = 100_000; // cells that are painted within a frame
const SHARP = 1.5; // pixels of an image for one of the page, at most
const LABEL = 12,
  SMALL = 11; // font sizes

/**
 * Draws the grid into the container and keeps it there: the whole, and a closer look when columns are too many.
 * @param {HTMLElement} container @param {Spec} spec @param {Palette} palette
 */
export function grid(container, spec, palette) {
  const parts = once(container, () => {
    const [whole, close] = [frame(), frame()],
      caption = h("p", { class: "closer" });
    container.append(whole.element, caption, close.element);
    return { whole, close, caption };
  });
  const room = roomIn(container),
    sizes = sized(spec),
    compact = isCompact(sizes, room);
  const around = compact ? closer(sizes, room, spec.selected) : null;
  show(parts.whole, spec, draw(spec, palette, room, { compact, around, soon: true }), palette);
  parts.close.element.hidden = parts.caption.hidden = !compact;
  if (!compact) return;
  const [first, end] = around.columns;
  parts.caption.textContent = `A closer look at tokens ${first} to ${end - 1} of ${spec.columns.length}`;
  show(parts.close, { ...spec, name: `${spec.name}, a closer look` }, draw(spec, palette, room, around), palette);
}

/**
 * The grid as it is drawn, for leaving the page: every cell its own rectangle.
 * @param {HTMLElement} container @param {Spec} spec @param {Palette} palette
 */
export function drawing(container, spec, palette) {
  const room = roomIn(container),
    compact = isCompact(sized(spec), room);
  const { picture } = draw({ ...spec, selected: null }, palette, room, { compact, cells: 60_000 });
  picture.setAttribute("data-title", spec.heading ?? "");
  return picture;
}

/** Several grids with their headings, three at most. @param {HTMLElement} body @param {Spec[]} specs */
export function grids(body, specs, palette) {
  const panes = once(body, () =>
    [0, 1, 2].map(() => {
      const [heading, main] = [h("h3", {}), h("div", { class: "main" })];
      return { whole: body.appendChild(h("div", { class: "one" }, heading, main)), heading, main };
    }),
  );
  for (const [place, { whole }] of panes.entries()) whole.hidden = place >= specs.length;
  for (const [place, spec] of specs.entries()) {
    panes[place].heading.textContent = spec.heading;
    grid(panes[place].main, spec, palette);
  }
  return panes.map(({ main }) => main);
}

export function roomIn(container, least = 240) {
  return Math.max(container.clientWidth, least);
}

/** What the layout has to know. @param {Spec} spec @returns {import("./layout.js").Sizes} */
export function sized({ rows, columns, corner, square, side, flagged, least, wide, tall, labels }) {
  const widths = (list) => list.map(({ text }) => textWidth(text, LABEL));
  const room = { rows: widths(rows), columns: widths(columns), corner: corner && textWidth(corner, SMALL, SANS) };
  return { ...room, square, side: Boolean(side || flagged), least, wide, tall, above: labels === "top" };
}

/**
 * @param {Spec} spec @param {Palette} palette @param {number} room
 * @param {import("./layout.js").Part & { around?: import("./layout.js").Part, cells?: number, soon?: boolean }} part
 *   `soon`: large maps are painted after the frame, band by band
 */
function draw(spec, palette, room, { around = null, cells, soon = false, ...part }) {
  const at = gridLayout(sized(spec), room, part),
    { left, top, wide, tall, width, height, across, down } = at,
    compact = part.compact ?? false;
  const most = cells ?? (compact ? MOST_SMALL : MOST_CELLS),
    whole = { x: left, y: top, width: across * wide, height: down * tall, fill: "none" };
  const picture = svg("svg", {
    ...{ width, height, viewBox: `0 0 ${width} ${height}` },
    ...{ "aria-hidden": "true", "font-family": SANS },
  });
  picture.append(svg("rect", { ...whole, stroke: palette.line }));
  picture.append(across * down > most ? image(spec, at, soon) : rectangles(spec, at));
  if (!(compact && spec.square)) picture.append(rowLabels(spec, at, palette));
  if (!compact) picture.append(columnLabels(spec, at, palette));
  if (spec.corner) {
    const where = { x: left - 6, y: spec.labels === "top" ? top - 5 : 12, "text-anchor": "end" };
    picture.append(svg("text", { ...where, "font-size": SMALL, fill: palette.muted }, spec.corner));
  }
  if (spec.side) picture.append(sideNotes(spec, at, palette));
  if (spec.flagged) picture.append(flags(spec.flagged, at, palette));
  if (around) picture.append(bracket(at, palette, around));
  if (Number.isInteger(spec.marked) && at.holds({ row: at.firstRow, column: spec.marked })) {
    const { x } = at.box({ row: 0, column: spec.marked });
    picture.append(svg("rect", { ...whole, x, width: wide, stroke: palette.muted, "stroke-dasharray": "2 2" }));
  }
  if (spec.border) picture.append(...borders(spec, at, palette));
  if (spec.selected && at.holds(spec.selected)) picture.append(...outline(at.box(spec.selected), palette));
  picture.append(legend(spec, left, height - 26, Math.min(across * wide, 220), palette));
  return { picture, at };
}

/** Lines between the texts. @param {Spec} spec @param {At} at @param {Palette} palette */
function* borders({ border, square }, at, palette) {
  const look = { class: "border", stroke: palette.ink, "stroke-width": 1.5 },
    cell = { row: at.firstRow, column: at.firstColumn },
    [right, below] = [at.left + at.across * at.wide, at.top + at.down * at.tall];
  if (border > at.firstColumn && border < at.firstColumn + at.across) {
    const { x } = at.box({ ...cell, column: border });
    yield svg("line", { ...look, x1: x, x2: x, y1: at.top, y2: below });
  }
  if (square && border > at.firstRow && border < at.firstRow + at.down) {
    const { y } = at.box({ ...cell, row: border });
    yield svg("line", { ...look, x1: at.left, x2: right, y1: y, y2: y });
  }
}

/** @param {At} at */
function* cells({ firstRow, firstColumn, down, across }) {
  for (let row = firstRow; row < firstRow + down; row++)
    for (let column = firstColumn; column < firstColumn + across; column++) yield { row, column };
}

/** @param {Spec} spec @param {At} at */
function rectangles(spec, at) {
  const all = svg("g", { "shape-rendering": "crispEdges" }),
    words = svg("g", { "font-size": SMALL, "text-anchor": "middle" });
  const drawn = [...cells(at)]
    .map((cell) => ({ cell, value: spec.value(cell.row, cell.column) }))
    .filter(({ value }) => Number.isFinite(value));
  const fits = ({ value }) => textWidth(spec.brief(value), SMALL, SANS) <= at.wide - 4,
    roomy = at.wide >= 28 && at.tall >= 17 && spec.numbers !== false && drawn.every(fits);
  for (const { cell, value } of drawn) {
    const box = at.box(cell),
      middle = { x: box.x + at.wide / 2, y: box.y + at.tall / 2 + 4 };
    all.append(svg("rect", { ...box, fill: spec.scale.color(value) }));
    if (roomy) words.append(svg("text", { ...middle, fill: inkOn(spec.scale.rgb(value)) }, spec.brief(value)));
  }
  return svg("g", {}, all, words);
}

/** The cells as images, a band of rows each. @param {Spec} spec @param {At} at @param {boolean} soon */
function image(spec, at, soon) {
  const known = pixelled.get(spec.values),
    key = [spec.scale.color(0), spec.scale.limit, at.firstRow, at.firstColumn, at.down, at.across].join(" ");
  const tiles = known?.key === key ? known.tiles : bands(at, BAND).map((part) => ({ part, href: "" }));
  if (spec.values) pixelled.set(spec.values, { key, tiles });
  const images = tiles.map(({ part, href }) => {
    const { x, y } = at.box({ row: part.firstRow, column: part.firstColumn });
    return svg("image", {
      ...{ href: href || null, x, y, width: at.across * at.wide, height: part.down * at.tall },
      ...{ preserveAspectRatio: "none", "image-rendering": "pixelated" },
    });
  });
  const paint = (place) => {
    const tile = tiles[place];
    tile.href ||= pixels(spec, at, tile.part);
    images[place].setAttribute("href", tile.href);
  };
  const missing = [...tiles.keys()].filter((place) => !tiles[place].href);
  if (soon && tiles.length > 1) inFrames(missing, paint);
  else missing.forEach(paint);
  return svg("g", {}, ...images);
}
const pixelled = new WeakMap();

/** One after the other, one in a frame. @param {number[]} places @param {(place: number) => void} paint */
function inFrames([place, ...rest], paint) {
  if (place === undefined) return;
  paint(place);
  requestAnimationFrame(() => inFrames(rest, paint));
}

// One pixel per cell, or per block of cells where there are more than anybody could see.
function pixels(spec, at, part) {
  const most = SHARP * Math.max(at.across * at.wide, 1),
    rows = Math.ceil((SHARP * Math.max(at.down * at.tall, 1) * part.down) / at.down),
    { values, wide, high } = pooled(spec.value, part, most, rows),
    canvas = h("canvas", { width: wide, height: high }),
    context = canvas.getContext("2d"),
    block = context.createImageData(wide, high),
    words = new Uint32Array(block.data.buffer),
    color = lookup(spec.scale);
  for (let place = 0; place < values.length; place++) words[place] = color(values[place]);
  context.putImageData(block, 0, 0);
  return canvas.toDataURL();
}

function rowLabels(spec, at, palette) {
  const group = svg("g", { "font-size": LABEL, "text-anchor": "end", "font-family": MONO });
  const every = Math.ceil(13 / at.tall);
  for (let row = 0; row < at.down; row++) {
    const { text, special } = spec.rows[row + at.firstRow];
    const picked = spec.selected?.row === row + at.firstRow;
    if (row % every && !picked) continue;
    const where = { x: at.left - 6, y: at.top + (row + 0.5) * at.tall + 4 };
    group.append(svg("text", { ...where, ...ink(special, picked, palette) }, fitted(text, LONGEST, LABEL)));
  }
  return group;
}

function columnLabels(spec, at, palette) {
  const group = svg("g", { "font-size": LABEL, "font-family": MONO });
  const above = spec.labels === "top";
  const y = above ? at.top - 7 : at.top + at.down * at.tall + (at.lying ? 15 : 7);
  for (let column = at.firstColumn; column < at.firstColumn + at.across; column++) {
    const { text, special } = spec.columns[column],
      x = at.box({ row: 0, column }).x + at.wide / 2;
    const picked = [spec.selected?.column, spec.marked].includes(column);
    const place = at.lying
      ? { x, y, "text-anchor": "middle" }
      : { x: 0, y: 0, transform: `translate(${x + 4} ${y}) rotate(-90)`, "text-anchor": above ? "start" : "end" };
    const shown = fitted(text, at.lying ? at.wide - 4 : LONGEST, LABEL);
    group.append(svg("text", { ...place, ...ink(special, picked, palette) }, shown));
  }
  return group;
}

function ink(special, picked, palette) {
  const color = special ? palette.special : palette.ink;
  return { fill: color, "font-style": special ? "italic" : null, "font-weight": picked ? 700 : null };
}

function sideNotes(spec, at, palette) {
  const x = at.left + at.across * at.wide + 48,
    look = { "font-size": SMALL, "text-anchor": "end", fill: palette.muted };
  const group = svg("g", look, svg("text", { x, y: 12 }, spec.side.title));
  for (let row = 0; row < at.down; row++)
    group.append(svg("text", { x, y: at.top + (row + 0.5) * at.tall + 4 }, spec.side.text(row + at.firstRow)));
  return group;
}

/**
 * A strip beside the rows that are marked, with the word where there is room.
 * @param {Spec["flagged"]} flagged @param {At} at @param {Palette} palette
 */
function flags({ word, rows }, at, palette) {
  const x = at.left + at.across * at.wide + 4,
    group = svg("g", { class: "flags", "font-size": SMALL, fill: palette.muted });
  let below = -Infinity; // where the last word ends
  for (let row = 0; row < at.down; row++) {
    if (rows[row + at.firstRow] !== "1") continue;
    const y = at.top + row * at.tall;
    group.append(svg("rect", { x, y, width: 3, height: at.tall }));
    if (y < below) continue;
    group.append(svg("text", { x: x + 7, y: y + Math.max(at.tall / 2 + 4, SMALL) }, word));
    below = at.tall < SMALL ? Infinity : y + SMALL; // once beside rows that are too low for it
  }
  return group;
}

/**
 * Which part of the whole the closer look shows.
 * @param {At} at @param {Palette} palette @param {import("./layout.js").Part} part
 */
function bracket(at, palette, { columns, rows }) {
  const [first, end] = columns,
    [above, below] = rows;
  const { x, y } = at.box({ row: above, column: first });
  const box = { x, y, width: (end - first) * at.wide, height: (below - above) * at.tall };
  return svg("rect", { ...box, fill: "none", stroke: palette.ink, "stroke-opacity": 0.55 });
}

function outline(box, palette) {
  return [
    svg("rect", { ...box, fill: "none", stroke: palette.paper, "stroke-width": 4 }),
    svg("rect", { ...box, fill: "none", stroke: palette.ink, "stroke-width": 2 }),
  ];
}

/** @param {Spec} spec */
function legend(spec, left, top, width, palette) {
  const { limit, signed } = spec.scale,
    low = signed ? -limit : 0,
    steps = 40;
  const group = svg("g", { "font-size": SMALL, fill: palette.muted });
  for (let step = 0; step < steps; step++) {
    const fill = spec.scale.color(low + ((limit - low) * (step + 0.5)) / steps);
    group.append(
      svg("rect", { x: left + (step * width) / steps, y: top, width: width / steps + 0.5, height: 8, fill }),
    );
  }
  group.append(svg("rect", { x: left, y: top, width, height: 8, fill: "none", stroke: palette.line }));
  const word = (x, anchor, text) => svg("text", { x, y: top + 21, "text-anchor": anchor }, text);
  group.append(
    word(left, "start", `${signed && spec.beyond ? "≤ " : ""}${spec.format(low)}`),
    word(left + width, "end", `${spec.beyond ? "≥ " : ""}${spec.format(limit)}`),
  );
  if (signed) group.append(word(left + width / 2, "middle", "0"));
  return group;
}

function frame() {
  const element = h("div", { class: "grid", tabindex: "0", role: "application", "aria-roledescription": "heat map" });
  return { element, hover: svg("rect", { fill: "none", "pointer-events": "none", "stroke-width": 1.5 }) };
}

/**
 * @param {ReturnType<typeof frame>} parts @param {Spec} spec @param {{ picture: SVGElement, at: At }} drawn
 * @param {Palette} palette
 */
function show({ element, hover }, spec, { picture, at }, palette) {
  const describe = ({ row, column }) => spec.describe(row, column);
  element.setAttribute("aria-label", `${spec.name}. Arrow keys move; ${describe(spec.selected)}`);
  element.replaceChildren(picture);
  hover.setAttribute("stroke", palette.ink);
  hover.setAttribute("visibility", "hidden");
  picture.append(hover);
  walkable(element, {
    at,
    describe,
    pick: spec.select,
    hover: (cell) => {
      hover.setAttribute("visibility", cell ? "visible" : "hidden");
      if (cell) for (const [name, value] of Object.entries(at.box(cell))) hover.setAttribute(name, String(value));
    },
    keys: { here: spec.selected, rows: spec.rows.length, columns: spec.columns.length, up: -1, go: spec.select },
  });
}
