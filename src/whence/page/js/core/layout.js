// @ts-check
// Where everything goes: sizes and places of grids, flows and tiles, computed from counts and the widths of labels.

import { placesOf } from "./bundle.js";

/**
 * @typedef {import("./walk.js").Cell} Cell
 * @typedef {{ x: number, y: number, width: number, height: number }} Box
 * @typedef {{ columns: number[], rows: number[], corner?: number, square?: boolean, side?: boolean, least?: number,
 *   wide: number, tall: number, above: boolean }} Sizes  widths of the labels of columns and rows, and the
 *   smallest cell that has room for a number, and the largest
 * @typedef {{ compact?: boolean, columns?: number[], rows?: number[] }} Part  of a grid: the whole without labels,
 *   or columns and rows from the first up to the last but one
 */

export const LONG = 60; // more columns than this are drawn without labels, with a closer look below
export const NARROW = 13; // so are columns narrower than this, in pixels
export const LONGEST = 96; // pixels of a label
const LYING = 40; // a column as wide as this may have its label lying

/** The widest of these labels, cut. */
function widest(widths) {
  return Math.max(...widths.map((width) => Math.min(width, LONGEST)));
}

/** What labels below or above columns need, lying or standing. */
function labelling(widths, wide) {
  const lying = wide >= LYING && widths.every((width) => width <= wide - 6 || width > LONGEST * 2);
  return { lying, high: lying ? 22 : widest(widths) + 12 };
}

/** As many places as there is room for, around one of them. */
export function span(count, at, most) {
  const first = Math.min(Math.max(at - Math.floor(most / 2), 0), Math.max(count - most, 0));
  return [first, Math.min(first + most, count)];
}

/** The room that the labels of rows take. @param {Sizes} sizes */
export function gutter(sizes, compact = false) {
  return compact && sizes.square ? 8 : Math.ceil(Math.max(widest(sizes.rows), sizes.corner ?? 0)) + 10;
}

/** @param {Sizes} sizes */
function margin({ side }) {
  return side ? 52 : 4;
}

/** @param {Sizes} sizes */
export function isCompact(sizes, room) {
  return sizes.columns.length > LONG || (room - gutter(sizes)) / sizes.columns.length < NARROW;
}

/**
 * The part of a grid around a cell that has room for numbers.
 * @param {Sizes} sizes @param {number} room @param {Cell} cell @returns {Part}
 */
export function closer(sizes, room, { row, column }) {
  const many = Math.max(
    Math.floor((room - gutter(sizes) - margin(sizes)) / (sizes.least ?? (sizes.square ? 24 : 33))),
    4,
  );
  const rows = sizes.square ? span(sizes.rows.length, row, Math.min(many, 16)) : [0, sizes.rows.length];
  return { columns: span(sizes.columns.length, column, Math.min(many, 32)), rows };
}

/**
 * A grid of cells with labels, a legend below it.
 * @param {Sizes} sizes @param {number} room @param {Part} part
 */
export function gridLayout(sizes, room, { compact = false, columns, rows } = {}) {
  const [firstColumn, endColumn] = columns ?? [0, sizes.columns.length],
    [firstRow, endRow] = rows ?? [0, sizes.rows.length];
  const across = endColumn - firstColumn,
    down = endRow - firstRow,
    left = gutter(sizes, compact),
    right = margin(sizes);
  const wide = Math.min((room - left - right) / across, compact ? Infinity : sizes.wide),
    tall = sizes.square ? Math.min(wide, compact ? wide : sizes.tall) : sizes.tall;
  const { lying, high } = compact
    ? { lying: false, high: 4 }
    : labelling(sizes.columns.slice(firstColumn, endColumn), wide);
  const top = sizes.above ? high + (compact ? 2 : 0) : 18;
  const width = Math.ceil(left + across * wide + right),
    height = Math.ceil(top + down * tall + (sizes.above ? 4 : high) + 34);
  const find = (x, y) => inside(Math.floor((y - top) / tall), Math.floor((x - left) / wide), down, across);
  return {
    ...{ left, top, wide, tall, across, down, firstRow, firstColumn, lying, width, height },
    /** @param {number} x @param {number} y @returns {Cell | null} */
    find: (x, y) => moved(find(x, y), firstRow, firstColumn),
    /** @param {Cell} cell @returns {Box} */
    box: ({ row, column }) => ({
      x: left + (column - firstColumn) * wide,
      y: top + (row - firstRow) * tall,
      width: wide,
      height: tall,
    }),
    /** @param {Cell} cell */
    holds: ({ row, column }) => row >= firstRow && row < endRow && column >= firstColumn && column < endColumn,
  };
}

function inside(row, column, rows, columns) {
  return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
}

function moved(cell, row, column) {
  return cell && { row: cell.row + row, column: cell.column + column };
}

/** How high a row of layers is. */
export function height(depth) {
  return Math.min(Math.max(Math.floor(340 / depth), 12), 30);
}

const LEFT = 44,
  RIGHT = 8,
  WIDEST = 140,
  UPRIGHT = 15, // the narrowest column whose label can be read, standing
  AIRY = 60, // pixels between the feet of ribbons, where there is room
  SHARES = 18; // a line of shares below lying labels

/** As many columns of a flow as have room for their labels, with as much again for what they are wide. */
export function columnsIn(room) {
  return Math.max(Math.floor((room - LEFT - RIGHT) / (1.5 * UPRIGHT)), 5);
}

/** Columns of one width. */
function even(columns, room) {
  return columns.map(() => Math.min(room / columns.length, WIDEST));
}

/** Columns as wide as what they have, and some air; `unit` is how wide the whole is. */
function spread(columns, room) {
  const { length } = columns,
    air = Math.max(Math.min(room / 2 / length, AIRY), UPRIGHT),
    unit = Math.min(Math.max(room - length * air, 0), room / 2);
  return { widths: columns.map(({ share }) => air + unit * share), unit };
}

/**
 * A flow: columns are tokens, or neighbours bundled; row 0, the input, at the bottom.
 * @param {number} rows @param {number[]} labels  their widths @param {number} room
 * @param {{ columns: import("./bundle.js").Column[], above?: number, shares?: number, whole?: boolean }} look
 *   `above` and `shares` are pixels for what stands over the top row, and between the lowest row and standing labels;
 *   `whole`: the shares of the columns add up, and widths say them
 */
export function flowLayout(rows, labels, room, { columns, above = 14, shares = 0, whole = false }) {
  const inner = room - LEFT - RIGHT,
    { widths, unit } = whole ? spread(columns, inner) : { widths: even(columns, inner), unit: 0 },
    rights = widths.map((_, place) => LEFT + widths.slice(0, place + 1).reduce((sum, width) => sum + width, 0)),
    right = rights.at(-1),
    tall = Math.min(Math.max(420 / (rows - 1), 22), rows === 2 ? 220 : 84),
    lying = labels.every((label, place) => widths[place] >= LYING && label <= widths[place] - 6),
    high = lying ? 22 + SHARES : widest(labels) + 12 + shares,
    places = placesOf(columns);
  /** @param {number} x @param {number} y */
  const find = (x, y) => {
    const column = x < LEFT ? -1 : rights.findIndex((end) => x < end),
      cell = inside(rows - 1 - Math.round((y - above) / tall), column, rows, columns.length);
    return cell && { row: cell.row, column: columns[cell.column].first };
  };
  return {
    ...{ wide: Math.min(...widths), tall, lying, left: LEFT, right, columns, places, unit, find },
    shares: lying ? 0 : shares,
    width: Math.round(right + RIGHT),
    height: Math.ceil(above + tall * (rows - 1) + 14 + high),
    x: (token) => rights[places[token]] - widths[places[token]] / 2,
    y: (row) => above + tall * (rows - 1 - row),
    room: (column) => (lying ? widths[places[column.first]] - 2 : LONGEST),
  };
}

const ASIDE = 34,
  ABOVE = 18,
  GAP = 3,
  LARGEST = 84,
  LEAST = 34, // pixels of a tile, as long as they fit side by side
  TALLEST = 1100; // pixels of all layers, as long as tiles are no smaller than that

/** Heads as tiles: a column for each, row 0 at the bottom. */
export function tileLayout(rows, heads, room) {
  const high = Math.max(TALLEST / rows - GAP, LEAST),
    side = Math.min((room - ASIDE) / heads - GAP, LARGEST, high),
    step = side + GAP;
  return {
    ...{ side, step, left: ASIDE },
    width: ASIDE + heads * step,
    height: ABOVE + rows * step,
    /** @param {number} x @param {number} y */
    find: (x, y) => inside(rows - 1 - Math.floor((y - ABOVE) / step), Math.floor((x - ASIDE) / step), rows, heads),
    /** @param {Cell} cell */
    place: ({ row, column }) => ({ x: ASIDE + column * step, y: ABOVE + (rows - 1 - row) * step }),
  };
}

const READABLE = 104, // pixels of a head that can be read
  CAPTION = 18;

/** The heads of one layer, each with its number above it, in as many rows as they need. */
export function wrappedLayout(heads, room) {
  const columns = Math.max(Math.min(Math.floor((room + 2 * GAP) / (READABLE + 2 * GAP)), heads), Math.min(heads, 2)),
    side = Math.min((room + 2 * GAP) / columns - 2 * GAP, READABLE * 1.25),
    [across, down] = [side + 2 * GAP, side + CAPTION];
  return {
    ...{ side, columns, rows: Math.ceil(heads / columns) },
    width: columns * across - 2 * GAP,
    height: Math.ceil(heads / columns) * down,
    /** @param {number} x @param {number} y @returns {Cell | null} */
    find: (x, y) => {
      const cell = inside(Math.floor(y / down), Math.floor(x / across), Math.ceil(heads / columns), columns);
      return cell && cell.row * columns + cell.column < heads ? cell : null;
    },
    /** @param {number} head */
    place: (head) => ({ x: (head % columns) * across, y: Math.floor(head / columns) * down + CAPTION }),
  };
}
