// Heads overview: every head of every layer as a small map; a click opens it in Maps.

import { called, fresh, title, wording } from "./data.js";
import { SANS, announce, h, hush, once, select, tell } from "./dom.js";
import { figure } from "./figure.js";
import { limit, number, percent, scale } from "./scale.js";
import { chosen } from "./state.js";

const LEFT = 34, TOP = 18, GAP = 3, LARGEST = 84;
const STEPS = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, { name: "heads", vector: false });
  const options = data.head_maps.map((name) => [name, title(data, name)]);
  const name = chosen(state.tiles, options);
  select(choices, "tiles", "Map", options, name, (value) => state.set({ tiles: value }));
  const parts = once(body, () => {
    const canvas = h("canvas", {}), mark = h("div", { class: "mark" });
    const frame = h("div", { class: "grid tiles", tabindex: "0", role: "application", "aria-roledescription": "small multiples" }, canvas, mark);
    body.append(frame);
    return { canvas, mark, frame, drawn: "" };
  });
  const side = Math.min((Math.max(body.clientWidth, 240) - LEFT) / data.heads - GAP, LARGEST);
  const drawn = [name, state.shade, side].join(" ");
  if (parts.drawn !== drawn) {
    parts.summary = paint(parts.canvas, data, name, side, palette);
    parts.drawn = drawn;
  }
  say(parts.summary.finding, `${data.labels[name]?.meaning ?? ""} ${data.layers.length} layers × ${data.heads} heads on one scale, ${parts.summary.range}. Rows of a tile ${wording(name).rows} its columns.`);
  interact(parts, data, state, name, side);
  held.pictures = () => [parts.canvas];
  held.table = () => table(data, name);
}

function place(data, layer, head, side) {
  return { x: LEFT + head * (side + GAP), y: TOP + (data.layers.length - 1 - layer) * (side + GAP) };
}

// Draws all tiles; says where most of the attention goes.
function paint(canvas, data, name, side, palette) {
  const width = data.tokens.length, high = data.layers.length, sharp = Math.max(devicePixelRatio, 2);
  const whole = [LEFT + data.heads * (side + GAP), TOP + high * (side + GAP)];
  canvas.width = whole[0] * sharp;
  canvas.height = whole[1] * sharp;
  canvas.style.width = `${whole[0]}px`;
  canvas.style.height = `${whole[1]}px`;
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, ...whole);
  const signed = data.variables[name].signed, end = limit(sample(data, name));
  const colors = table256(scale(palette, end, signed), end, signed);
  const received = new Float64Array(width), tile = h("canvas", { width, height: width }), brush = tile.getContext("2d");
  const pixels = brush.createImageData(width, width), words = new Uint32Array(pixels.data.buffer);
  const favourites = new Map();
  for (let layer = 0; layer < high; layer++)
    for (let head = 0; head < data.heads; head++) {
      const values = fresh(data, name, layer, head);
      received.fill(0);
      for (let at = 0; at < values.length; at++) {
        words[at] = Number.isNaN(values[at]) ? 0 : colors(values[at]);
        if (values[at] > 0) received[at % width] += values[at];
      }
      brush.putImageData(pixels, 0, 0);
      const { x, y } = place(data, layer, head, side);
      context.imageSmoothingEnabled = width > side * sharp;
      context.drawImage(tile, x, y, side, side);
      context.strokeStyle = palette.line;
      context.strokeRect(x, y, side, side);
      const top = received.indexOf(Math.max(...received));
      favourites.set(top, (favourites.get(top) ?? 0) + 1);
    }
  lettering(context, data, side, palette);
  return { finding: finding(data, name, favourites), range: `${signed ? `−${show(name, end)} (orange) to ` : "0 to "}${show(name, end)}${signed ? " (blue)" : ""}` };
}

function show(name, value) {
  return ["attention", "effective", "null"].includes(name) ? percent(value) : number(value);
}

function lettering(context, data, side, palette) {
  context.fillStyle = palette.muted;
  context.font = `11px ${SANS}`;
  const sparse = Math.ceil(16 / (side + GAP));
  context.textAlign = "center";
  for (let head = 0; head < data.heads; head += sparse) context.fillText(String(head), place(data, 0, head, side).x + side / 2, 12);
  context.textAlign = "right";
  context.fillText("layer", LEFT - 5, 12);
  for (const [layer, label] of data.layers.entries()) if (layer % sparse === 0) context.fillText(String(label), LEFT - 6, place(data, layer, 0, side).y + side / 2 + 4);
}

// Colours looked up, not computed, for millions of values; little-endian pixels.
function table256(shades, end, signed) {
  const low = signed ? -end : 0, colors = new Uint32Array(256);
  for (let step = 0; step < 256; step++) {
    const [red, green, blue] = shades.rgb(low + ((end - low) * step) / 255);
    colors[step] = (255 << 24) | (blue << 16) | (green << 8) | red;
  }
  const factor = 255 / (end - low);
  return (value) => colors[Math.min(Math.max(Math.round((value - low) * factor), 0), 255)];
}

function sample(data, name) {
  const parts = [], step = Math.max(Math.floor((data.layers.length * data.heads) / 24), 1);
  for (let at = 0; at < data.layers.length * data.heads; at += step) parts.push(...fresh(data, name, Math.floor(at / data.heads), at % data.heads).filter((_, place) => place % Math.ceil(data.tokens.length ** 2 / 4000) === 0));
  return parts;
}

function finding(data, name, favourites) {
  const [[token, times]] = [...favourites].sort((one, other) => other[1] - one[1]);
  const most = wording(name).verb === "attends" ? `receives most ${title(data, name)}` : "is the largest source";
  return `“${called(data, token)}” ${most} in ${times} of ${data.layers.length * data.heads} heads`;
}

function interact({ frame, mark }, data, state, name, side) {
  const describe = (layer, head) => {
    const at = layer * data.heads + head, rank = data.variables.rank ? `, rank ${data.variables.rank.values[at]}` : "";
    return `layer ${data.layers[layer]}, head ${head}${rank}`;
  };
  const pick = (layer, head) => state.set({ layer, head });
  const open = (layer, head) => state.set({ view: "maps", layer, head, minus: "", maps: ["effective", "null"].includes(name) ? "attention" : name });
  const locate = (event) => {
    const box = frame.firstChild.getBoundingClientRect();
    const head = Math.floor((event.clientX - box.left - LEFT) / (side + GAP)), up = Math.floor((event.clientY - box.top - TOP) / (side + GAP));
    const layer = data.layers.length - 1 - up;
    return head >= 0 && head < data.heads && layer in data.layers ? [layer, head] : null;
  };
  const head = state.head === "mean" ? null : state.head;
  mark.hidden = head === null;
  const { x, y } = place(data, state.layer, head ?? 0, side);
  Object.assign(mark.style, { left: `${x}px`, top: `${y}px`, width: `${side}px`, height: `${side}px` });
  frame.setAttribute("aria-label", `All heads. Arrow keys move; Enter opens the map. Now at ${describe(state.layer, head ?? 0)}`);
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
    const [layer, next] = [within(state.layer + step[0], data.layers.length), within((head ?? 0) + step[1], data.heads)];
    pick(layer, next);
    announce(describe(layer, next));
  };
}

// One line per head and target: the sources are columns.
function table(data, name) {
  const width = data.tokens.length, rows = [];
  for (const [at, layer] of data.layers.entries())
    for (let head = 0; head < data.heads; head++) {
      const values = fresh(data, name, at, head);
      for (let target = 0; target < width; target++) rows.push([layer, head, target, data.tokens[target].text, ...values.subarray(target * width, (target + 1) * width)]);
    }
  return { header: ["layer", "head", "target", "target_token", ...data.tokens.map((token, source) => `${source} ${token.text}`)], rows };
}
