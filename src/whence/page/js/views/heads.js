// Heads overview: every head of every layer as a small map; a click opens it in Maps.

import { called, fresh, layersOf, said, title, wording } from "../core/data.js";
import { SANS, announce, h, hush, once, select, svg, tell } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { limit, number, percent, scale } from "../core/scale.js";
import { chosen } from "../core/state.js";

const LEFT = 34,
  TOP = 18,
  GAP = 3,
  LARGEST = 84;
const MOST_CELLS = 60_000; // more than this leave the page as one image per head
const STEPS = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export const perHead = () => true;

export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, { name: "heads" });
  const options = data.head_maps.map((name) => [name, title(data, name)]);
  const name = chosen(state.tiles, options);
  select(choices, "tiles", "Map", options, name, (value) => state.set({ tiles: value }));
  const parts = once(body, () => {
    const canvas = h("canvas", {}),
      mark = h("div", { class: "mark" });
    const frame = h(
      "div",
      { class: "grid tiles", tabindex: "0", role: "application", "aria-roledescription": "small multiples" },
      canvas,
      mark,
    );
    body.append(frame);
    return { canvas, mark, frame, drawn: "" };
  });
  const side = Math.min((Math.max(body.clientWidth, 240) - LEFT) / data.heads - GAP, LARGEST);
  const drawn = [name, state.shade, side].join(" ");
  if (parts.drawn !== drawn) {
    parts.summary = paint(parts.canvas, data, name, side, palette);
    parts.drawn = drawn;
  }
  say(
    parts.summary.finding,
    `${data.styles[name]?.meaning ?? ""} ${layersOf(data, name).length} layers × ${data.heads} heads on one scale, ${parts.summary.range}. Rows of a tile ${wording(data, name).rows} its columns.`,
  );
  interact(parts, data, state, name, side);
  held.palette = palette;
  held.pictures = () => [vector(data, name, side, palette)];
  held.table = () => table(data, name);
}

// Where a head is drawn; `rows` are the layers that have the map, the last on top.
function place(rows, layer, head, side) {
  return { x: LEFT + head * (side + GAP), y: TOP + (rows.length - 1 - rows.indexOf(layer)) * (side + GAP) };
}

function extent(data, rows, side) {
  return [LEFT + data.heads * (side + GAP), TOP + rows.length * (side + GAP)];
}

// Every head, the first layer first.
function* tiles(data, name, side) {
  const rows = layersOf(data, name);
  for (const layer of rows)
    for (let head = 0; head < data.heads; head++)
      yield { values: fresh(data, name, layer, head), ...place(rows, layer, head, side) };
}

// Draws all tiles; says where most of the attention goes.
function paint(canvas, data, name, side, palette) {
  const width = data.tokens.length,
    sharp = Math.max(devicePixelRatio, 2),
    whole = extent(data, layersOf(data, name), side);
  canvas.width = whole[0] * sharp;
  canvas.height = whole[1] * sharp;
  canvas.style.width = `${whole[0]}px`;
  canvas.style.height = `${whole[1]}px`;
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, ...whole);
  const shades = shading(data, name, palette),
    received = new Float64Array(width),
    favourites = new Map();
  const tile = painter(width, shades);
  context.imageSmoothingEnabled = width > side * sharp;
  context.strokeStyle = palette.line;
  for (const { values, x, y } of tiles(data, name, side)) {
    received.fill(0);
    for (let at = 0; at < values.length; at++) if (values[at] > 0) received[at % width] += values[at];
    context.drawImage(tile(values), x, y, side, side);
    context.strokeRect(x, y, side, side);
    const top = received.indexOf(Math.max(...received));
    favourites.set(top, (favourites.get(top) ?? 0) + 1);
  }
  context.fillStyle = palette.muted;
  context.font = `11px ${SANS}`;
  for (const { text, x, y, anchor } of lettering(data, name, side)) {
    context.textAlign = anchor === "middle" ? "center" : "right";
    context.fillText(text, x, y);
  }
  return { finding: finding(data, name, favourites), range: range(data, name, shades) };
}

// The same as SVG: cell by cell while they are few.
function vector(data, name, side, palette) {
  const [across, down] = extent(data, layersOf(data, name), side),
    width = data.tokens.length,
    shades = shading(data, name, palette);
  const picture = svg("svg", {
    width: across,
    height: down,
    viewBox: `0 0 ${across} ${down}`,
    "font-family": SANS,
    "font-size": 11,
    fill: palette.muted,
  });
  const tile = painter(width, shades),
    few = width ** 2 * data.heads * data.layers.length <= MOST_CELLS;
  for (const { values, x, y } of tiles(data, name, side)) {
    const drawn = few
      ? cells(values, width, shades)
      : svg("image", {
          href: tile(values).toDataURL(),
          width,
          height: width,
          "image-rendering": width < side ? "pixelated" : "auto",
        });
    picture.append(svg("g", { transform: `translate(${x} ${y}) scale(${side / width})` }, drawn));
    picture.append(svg("rect", { x, y, width: side, height: side, fill: "none", stroke: palette.line }));
  }
  for (const { text, anchor, ...at } of lettering(data, name, side))
    picture.append(svg("text", { ...at, "text-anchor": anchor }, text));
  return picture;
}

function cells(values, width, { shade }) {
  const group = svg("g", { "shape-rendering": "crispEdges" });
  for (const [at, value] of values.entries())
    if (Number.isFinite(value))
      group.append(
        svg("rect", { x: at % width, y: Math.floor(at / width), width: 1, height: 1, fill: shade.color(value) }),
      );
  return group;
}

// One scale for all heads.
function shading(data, name, palette) {
  const { signed } = data.variables[name],
    some = sample(data, name),
    end = limit(some);
  return { shade: scale(palette, end, signed), end, signed, beyond: some.some((value) => Math.abs(value) > end) };
}

// Paints a head into a canvas of one pixel per cell, the same canvas every time.
function painter(width, { shade, end, signed }) {
  const tile = h("canvas", { width, height: width }),
    brush = tile.getContext("2d"),
    colors = table256(shade, end, signed);
  const pixels = brush.createImageData(width, width),
    words = new Uint32Array(pixels.data.buffer);
  return (values) => {
    for (let at = 0; at < values.length; at++) words[at] = Number.isNaN(values[at]) ? 0 : colors(values[at]);
    brush.putImageData(pixels, 0, 0);
    return tile;
  };
}

function range(data, name, { end, signed, beyond }) {
  const [low, high] = [
    signed ? `${beyond ? "≤ " : ""}−${show(data, name, end)} (orange)` : "0",
    `${beyond ? "≥ " : ""}${show(data, name, end)}`,
  ];
  return `${low} to ${high}${signed ? " (blue)" : ""}`;
}

function show(data, name, value) {
  return data.styles[name].percent ? percent(value) : number(value);
}

// Numbers of heads above, of layers on the left.
function lettering(data, name, side) {
  const rows = layersOf(data, name);
  const sparse = Math.ceil(16 / (side + GAP)),
    found = [{ text: "layer", x: LEFT - 5, y: 12, anchor: "end" }];
  for (let head = 0; head < data.heads; head += sparse)
    found.push({ text: String(head), x: place(rows, 0, head, side).x + side / 2, y: 12, anchor: "middle" });
  for (const [at, layer] of rows.entries())
    if (at % sparse === 0)
      found.push({
        text: String(data.layers[layer]),
        x: LEFT - 6,
        y: place(rows, layer, 0, side).y + side / 2 + 4,
        anchor: "end",
      });
  return found;
}

// Colours looked up, not computed, for millions of values; little-endian pixels.
function table256(shades, end, signed) {
  const low = signed ? -end : 0,
    colors = new Uint32Array(256);
  for (let step = 0; step < 256; step++) {
    const [red, green, blue] = shades.rgb(low + ((end - low) * step) / 255);
    colors[step] = (255 << 24) | (blue << 16) | (green << 8) | red;
  }
  const factor = 255 / (end - low);
  return (value) => colors[Math.min(Math.max(Math.round((value - low) * factor), 0), 255)];
}

// Some values of some heads; the steps share no factor with a row, else the same columns would come again and again.
function sample(data, name) {
  const parts = [],
    count = data.layers.length * data.heads,
    width = data.tokens.length;
  const step = coprime(Math.ceil(width ** 2 / 4000), width);
  for (let at = 0; at < count; at += coprime(Math.max(Math.floor(count / 24), 1), data.heads))
    parts.push(
      ...fresh(data, name, Math.floor(at / data.heads), at % data.heads).filter((_, place) => place % step === 0),
    );
  return parts;
}

// The least number from `step` on that has no factor in common with `width`.
function coprime(step, width) {
  const common = (one, other) => (other ? common(other, one % other) : one);
  while (common(step, width) > 1) step += 1;
  return step;
}

function finding(data, name, favourites) {
  const [[token, times]] = [...favourites].sort((one, other) => other[1] - one[1]);
  const most = said(wording(data, name).most, { title: title(data, name) });
  return `“${called(data, token)}” ${most} in ${times} of ${layersOf(data, name).length * data.heads} heads`;
}

function interact({ frame, mark }, data, state, name, side) {
  const rows = layersOf(data, name),
    here = () => rows.findLastIndex((layer) => layer <= state.layer); // the row of the chosen layer, or the next below
  const describe = (layer, head) => {
    const at = layer * data.heads + head,
      rank = data.variables.value_rank ? `, rank ${data.variables.value_rank.values[at]}` : "";
    return `layer ${data.layers[layer]}, head ${head}${rank}`;
  };
  const pick = (layer, head) => state.set({ layer, head });
  const open = (layer, head) =>
    state.set({
      view: "maps",
      layer,
      head,
      minus: "",
      maps: ["effective", "null"].includes(name) ? "attention" : name,
    });
  const locate = (event) => {
    const box = frame.firstChild.getBoundingClientRect();
    const head = Math.floor((event.clientX - box.left - LEFT) / (side + GAP)),
      up = Math.floor((event.clientY - box.top - TOP) / (side + GAP));
    const layer = rows[rows.length - 1 - up];
    return head >= 0 && head < data.heads && layer in data.layers ? [layer, head] : null;
  };
  const head = state.head === "mean" ? null : state.head;
  mark.hidden = head === null || !rows.includes(state.layer);
  const { x, y } = place(rows, state.layer, head ?? 0, side);
  Object.assign(mark.style, { left: `${x}px`, top: `${y}px`, width: `${side}px`, height: `${side}px` });
  frame.setAttribute(
    "aria-label",
    `All heads. Arrow keys move; Enter opens the map. Now at ${describe(state.layer, head ?? 0)}`,
  );
  frame.onpointermove = (event) => {
    const found = locate(event);
    found ? tell(event, `${describe(...found)}\nclick to open in Maps`) : hush();
  };
  frame.onpointerleave = hush;
  frame.onclick = (event) => {
    const found = locate(event);
    if (found) open(...found);
  };
  frame.onkeydown = (event) => {
    const head = state.head === "mean" ? null : state.head; // the last key may not be drawn yet
    if (event.key === "Enter") return open(state.layer, head ?? 0);
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const within = (value, count) => Math.min(Math.max(value, 0), count - 1);
    const [layer, next] = [rows[within(here() + step[0], rows.length)], within((head ?? 0) + step[1], data.heads)];
    pick(layer, next);
    announce(describe(layer, next));
  };
}

// One line per head and target: the sources are columns.
function table(data, name) {
  const width = data.tokens.length,
    rows = [];
  for (const at of layersOf(data, name))
    for (let head = 0; head < data.heads; head++) {
      const values = fresh(data, name, at, head);
      for (let target = 0; target < width; target++)
        rows.push([
          data.layers[at],
          head,
          target,
          data.tokens[target].text,
          ...values.subarray(target * width, (target + 1) * width),
        ]);
    }
  return {
    header: [
      "layer",
      "head",
      "target",
      "target_token",
      ...data.tokens.map((token, source) => `${source} ${token.text}`),
    ],
    rows,
  };
}
