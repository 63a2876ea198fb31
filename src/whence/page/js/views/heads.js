// @ts-check
// Heads overview: every head of every layer as a small map; a click opens it in Maps.

import { called, fresh, layersOf, notes, others, said, sinking, sinks, title, wording, written } from "../core/data.js";
import { SANS, h, once, select, svg } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { roomIn } from "../core/grid.js";
import { tileLayout } from "../core/layout.js";
import * as larger from "./layer.js";
import { together } from "./maps.js";
import { chosen } from "../core/state.js";
import { cells, painter, shading, strips } from "./tiles.js";
import { walkable } from "../core/walk.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {ReturnType<typeof tileLayout>} At
 */

const MOST_CELLS = 60_000, // more than this leave the page as one image per head
  BETWEEN = 32,
  BESIDE = 270, // pixels that are enough for heads beside the overview
  SEEN = 60; // pixels of a tile that can be read; smaller ones of the chosen layer are drawn larger beside

export const perHead = () => true;

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, data, "heads");
  const options = data.head_maps.map((one) => [one, title(data, one)]),
    name = chosen(state.tiles, options);
  select(choices, "tiles", "Map", options, name, (value) => state.set({ tiles: value }));
  const parts = once(body, () => {
    const canvas = h("canvas", {}),
      mark = h("div", { class: "mark" }),
      look = { class: "grid tiles", tabindex: "0", role: "application", "aria-roledescription": "small multiples" };
    const frame = body.appendChild(h("div", look, canvas, mark)),
      larger = body.appendChild(h("div", { class: "larger" }));
    return { canvas, mark, frame, larger, drawn: "", summary: null };
  });
  const rows = layersOf(data, name),
    at = tileLayout(rows.length, data.heads, roomIn(body));
  const drawn = [name, state.shade, at.side].join(" ");
  if (parts.drawn !== drawn) parts.summary = paint(parts.canvas, data, name, at, palette);
  parts.drawn = drawn;
  const scaled = `${rows.length} layers × ${data.heads} heads on one scale, ${parts.summary.range}`;
  const { meaning } = data.styles[name];
  const resting = data.sinks?.heads?.length ? ` ${sinking(data, "tiles")}` : "";
  say(parts.summary.finding, `${meaning} ${scaled}. Rows of a tile ${wording(data, name).rows} its columns.${resting}`);
  interact(parts, data, state, name, at);
  parts.larger.hidden = at.side >= SEEN;
  if (!parts.larger.hidden) {
    const beside = roomIn(body) - at.width - BETWEEN;
    larger.render(parts.larger, data, oneLayer(data, state, name, beside < BESIDE ? roomIn(body) : beside), palette);
  }
  held.pictures = (colors) => [vector(data, name, at, colors)];
  held.table = () => table(data, name);
}

/**
 * Every head, the first layer first.
 * @param {Data} data @param {string} name @param {At} at
 */
function* tiles(data, name, at) {
  for (const [row, layer] of layersOf(data, name).entries())
    for (let column = 0; column < data.heads; column++)
      yield { values: fresh(data, name, layer, column), ...at.place({ row, column }), ...{ layer, head: column } };
}

// Draws all tiles; says where most of the attention goes.
function paint(canvas, data, name, at, palette) {
  const width = data.tokens.length,
    sharp = Math.max(devicePixelRatio, 2),
    { side } = at;
  Object.assign(canvas, { width: at.width * sharp, height: at.height * sharp });
  Object.assign(canvas.style, { width: `${at.width}px`, height: `${at.height}px` });
  const context = canvas.getContext("2d"),
    shades = shading(data, name, palette),
    tile = painter(width, shades, side * sharp),
    favourites = new Map();
  context.scale(sharp, sharp);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, at.width, at.height);
  context.imageSmoothingEnabled = false;
  context.strokeStyle = palette.line;
  context.fillStyle = palette.muted;
  for (const { values, x, y, layer, head } of tiles(data, name, at)) {
    context.drawImage(tile(values), x, y, side, side);
    context.strokeRect(x, y, side, side);
    for (const { top, high } of strips(sinks(data, layer, head), side))
      context.fillRect(x + side + 1, y + top, 2, high);
    const top = favourite(values, width);
    favourites.set(top, (favourites.get(top) ?? 0) + 1);
  }
  Object.assign(context, { fillStyle: palette.muted, font: `11px ${SANS}` });
  for (const { text, x, y, anchor } of lettering(data, name, at)) {
    context.textAlign = anchor === "middle" ? "center" : "right";
    context.fillText(text, x, y);
  }
  return { finding: finding(data, name, favourites), range: range(data, name, shades) };
}

// The source that all targets together take most from.
function favourite(values, width) {
  const received = new Float64Array(width);
  for (let place = 0; place < values.length; place++) if (values[place] > 0) received[place % width] += values[place];
  return received.indexOf(Math.max(...received));
}

// The same as SVG: cell by cell while they are few.
function vector(data, name, at, palette) {
  const width = data.tokens.length,
    { side } = at,
    shades = shading(data, name, palette),
    tile = painter(width, shades, width);
  const picture = svg("svg", {
    ...{ width: at.width, height: at.height, viewBox: `0 0 ${at.width} ${at.height}` },
    ...{ "font-family": SANS, "font-size": 11, fill: palette.muted },
  });
  const few = width ** 2 * data.heads * data.layers.length <= MOST_CELLS,
    smooth = width < side ? "pixelated" : "auto";
  const whole = (values) =>
    svg("image", { href: tile(values).toDataURL(), width, height: width, "image-rendering": smooth });
  for (const { values, x, y, layer, head } of tiles(data, name, at)) {
    const drawn = few ? cells(values, width, shades) : whole(values);
    picture.append(svg("g", { transform: `translate(${x} ${y}) scale(${side / width})` }, drawn));
    picture.append(svg("rect", { x, y, width: side, height: side, fill: "none", stroke: palette.line }));
    for (const { top, high } of strips(sinks(data, layer, head), side))
      picture.append(svg("rect", { x: x + side + 1, y: y + top, width: 2, height: high }));
  }
  for (const { text, anchor, ...where } of lettering(data, name, at))
    picture.append(svg("text", { ...where, "text-anchor": anchor }, text));
  return picture;
}

function range(data, name, { end, signed, beyond }) {
  const written_ = written(data, name)(end),
    low = signed ? `${beyond ? "≤ " : ""}−${written_} (orange)` : "0";
  return `${low} to ${beyond ? "≥ " : ""}${written_}${signed ? " (blue)" : ""}`;
}

// Numbers of heads above, of layers on the left.
function lettering(data, name, at) {
  const sparse = Math.ceil(16 / at.step),
    found = [{ text: "layer", x: at.left - 5, y: 12, anchor: "end" }];
  for (let column = 0; column < data.heads; column += sparse)
    found.push({ text: String(column), x: at.place({ row: 0, column }).x + at.side / 2, y: 12, anchor: "middle" });
  for (const [row, layer] of layersOf(data, name).entries()) {
    const y = at.place({ row, column: 0 }).y + at.side / 2 + 4;
    if (row % sparse === 0) found.push({ text: String(data.layers[layer]), x: at.left - 6, y, anchor: "end" });
  }
  return found;
}

function finding(data, name, favourites) {
  const [[token, times]] = [...favourites].sort((one, other) => other[1] - one[1]);
  const most = said(wording(data, name).most, { title: title(data, name) });
  return `“${called(data, token)}” ${most} in ${times} of ${layersOf(data, name).length * data.heads} heads`;
}

/** What is known of a head, in words. */
function where(data, layer, column) {
  const rows = others(data, sinks(data, layer, column));
  const resting = rows.includes("1") ? [sinking(data, "head", rows)] : [];
  return [`layer ${data.layers[layer]}`, `head ${column}`, ...notes(data, layer, column), ...resting].join(", ");
}

/** Opens a head in Maps. */
function opened(data, state, name, layer, head) {
  const maps = together(data, name)?.names[0] ?? name;
  state.set({ view: "maps", layer, head, minus: "", maps });
}

/** Of the chosen layer, or the next below that has this map. */
function level(data, state, name) {
  const rows = layersOf(data, name);
  return rows[
    Math.max(
      rows.findLastIndex((layer) => layer <= state.layer),
      0,
    )
  ];
}

/** What the larger picture shows. */
function oneLayer(data, state, name, room) {
  const now = level(data, state, name);
  return {
    ...{ name, layer: now, head: state.head, room, key: state.shade },
    describe: (head) => where(data, now, head),
    go: (head) => state.set({ layer: now, head }),
    open: (head) => opened(data, state, name, now, head),
  };
}

function interact({ frame, mark }, data, state, name, at) {
  const rows = layersOf(data, name),
    head = state.head === "mean" ? 0 : state.head,
    row = rows.indexOf(level(data, state, name)),
    small = at.side < SEEN;
  const describe = (cell) => where(data, rows[cell.row], cell.column),
    open = (cell) => opened(data, state, name, rows[cell.row], cell.column),
    go = (cell) => state.set({ layer: rows[cell.row], head: cell.column });
  mark.hidden = state.head === "mean" || !rows.includes(state.layer);
  const { x, y } = at.place({ row: rows.indexOf(state.layer), column: head });
  Object.assign(mark.style, { left: `${x}px`, top: `${y}px`, width: `${at.side}px`, height: `${at.side}px` });
  const now = where(data, state.layer, head);
  frame.setAttribute("aria-label", `All heads. Arrow keys move; Enter opens the map. Now at ${now}`);
  walkable(frame, {
    at,
    describe: (cell) => `${describe(cell)}\nclick to ${small ? "see this layer larger" : "open in Who from whom"}`,
    pick: small ? go : open,
    open,
    keys: {
      ...{ here: { row, column: head }, rows: rows.length, columns: data.heads, say: describe },
      go,
    },
  });
}

// One line per head and target: the sources are columns.
function table(data, name) {
  const width = data.tokens.length,
    rows = [];
  for (const at of layersOf(data, name))
    for (let head = 0; head < data.heads; head++) {
      const values = fresh(data, name, at, head);
      for (const [target, { text }] of data.tokens.entries())
        rows.push([data.layers[at], head, target, text, ...values.subarray(target * width, (target + 1) * width)]);
    }
  const sources = data.tokens.map(({ text }, source) => `${source} ${text}`);
  return { header: ["layer", "head", "target", "target_token", ...sources], rows };
}
