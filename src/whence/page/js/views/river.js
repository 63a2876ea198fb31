// How the flow is painted: nodes, links as curves, labels; on a canvas for the screen, as SVG for leaving it.

import { MONO, SANS, fitted, svg, textWidth } from "../core/dom.js";
import { rowOf } from "./network.js";
import { scale } from "../core/scale.js";

const LEFT = 44,
  RIGHT = 8,
  LONGEST = 96,
  WIDEST = 84,
  LEVELS = 12,
  MOST = 6000;

// Where everything goes.
export function place({ net, data, columns, compact, room }) {
  const [first, end] = columns,
    count = end - first,
    shown = data.tokens.slice(first, end);
  const wide = Math.min((room - LEFT - RIGHT) / count, WIDEST);
  const lying = !compact && wide >= 40 && shown.every((token) => textWidth(token.shown, 12) <= wide - 6);
  const label = compact
    ? 6
    : lying
      ? 24
      : Math.max(...shown.map((token) => Math.min(textWidth(token.shown, 12), LONGEST))) + 14;
  const tall = Math.min(Math.max(420 / (net.rows.length - 1), 30), net.rows.length === 2 ? 220 : 84);
  const top = 14,
    width = Math.ceil(LEFT + count * wide + RIGHT),
    height = Math.ceil(top + tall * (net.rows.length - 1) + 12 + label);
  const x = (token) => LEFT + (token - first + 0.5) * wide,
    y = (row) => top + tall * (net.rows.length - 1 - row);
  const find = (left, down) => {
    const token = first + Math.floor((left - LEFT) / wide),
      row = net.rows.length - 1 - Math.round((down - top) / tall);
    return token >= first && token < end && row >= 0 && row < net.rows.length ? { row, token } : null;
  };
  return { width, height, x, y, find, wide, tall, lying, label, first, end };
}

// Draws it all, or only what is chosen and hovered, on top.
export function paint(canvas, picture, at, over = false) {
  const sharp = Math.max(devicePixelRatio, 1),
    [wide, high] = [Math.round(at.width * sharp), Math.round(at.height * sharp)];
  if (canvas.width !== wide || canvas.height !== high) {
    Object.assign(canvas, { width: wide, height: high });
    Object.assign(canvas.style, { width: `${at.width}px`, height: `${at.height}px` });
  }
  const brush = canvas.getContext("2d");
  brush.setTransform(sharp, 0, 0, sharp, 0, 0);
  brush.clearRect(0, 0, at.width, at.height);
  if (over) return highlight(brush, picture, at);
  brush.save();
  brush.beginPath();
  brush.rect(LEFT - 4, 0, at.width - LEFT + 4, at.height);
  brush.clip(); // links that come from outside a closer look end at its edge
  for (const { color, width, alpha, links } of levels(picture)) {
    Object.assign(brush, { strokeStyle: color, lineWidth: width, globalAlpha: alpha });
    brush.beginPath();
    for (const link of links) curve(brush, link, at);
    brush.stroke();
  }
  brush.restore();
  nodes(brush, picture, at);
  letters(brush, picture, at);
}

// Links of about the same strength are one stroke: thousands of them stay one frame.
function levels({ kept, palette }) {
  const most = Math.max(...kept.slice(-1).map((link) => Math.abs(link.strength)), 1e-9),
    found = new Map();
  for (const link of kept) {
    const level = Math.ceil(Math.sqrt(Math.abs(link.strength) / most) * LEVELS),
      key = link.strength < 0 ? -level : level;
    if (!found.has(key)) found.set(key, look(level / LEVELS, link.strength < 0, palette));
    found.get(key).links.push(link);
  }
  return found.values();
}

// `level` is the root of the share of the strongest: width grows with the share, and thin links stay in sight.
function look(level, negative, palette) {
  const color = negative ? palette.diverging[2] : palette.diverging.at(-3);
  return { color, width: 0.8 + 7.2 * level ** 2, alpha: 0.2 + 0.65 * level, links: [] };
}

function curve(brush, { from, source, to, target }, at) {
  const [x1, y1, x2, y2] = [at.x(source), at.y(from), at.x(target), at.y(to)],
    middle = (y1 + y2) / 2;
  brush.moveTo(x1, y1);
  brush.bezierCurveTo(x1, middle, x2, middle, x2, y2);
}

function nodes(brush, { net, data, palette, columns, mode }, at) {
  const filling = fillings({ net, palette, mode }),
    radius = size(at);
  for (const row of net.rows.keys())
    for (let token = columns[0]; token < columns[1]; token++) {
      brush.beginPath();
      brush.arc(at.x(token), at.y(row), radius, 0, 2 * Math.PI);
      brush.fillStyle = filling(row, token);
      brush.strokeStyle = data.tokens[token].special ? palette.line : palette.special;
      brush.fill();
      brush.lineWidth = 1;
      if (radius > 1.5) brush.stroke();
    }
}

// A node is as dark as the root of the share that goes through it: a hundredth and a tenth are told apart.
function fillings({ net, palette, mode }) {
  const shade = scale(palette, 1, false);
  return (row, token) => {
    const reached = mode === "into" ? Math.abs(net.reach[row][token]) : 0;
    return reached > 0.005 ? shade.color(Math.max(Math.sqrt(reached), 0.15)) : palette.paper;
  };
}

function size(at) {
  return Math.min(Math.max(at.wide / 5, 1.2), 4.5);
}

function letters(brush, { net, data, state, palette, columns, compact, around }, at) {
  Object.assign(brush, { font: `11px ${SANS}`, fillStyle: palette.muted, textAlign: "right", globalAlpha: 1 });
  const every = Math.ceil(13 / at.tall);
  for (const [row, layer] of net.rows.entries())
    if (row % every === 0) brush.fillText(row === 0 ? "input" : String(layer), LEFT - 10, at.y(row) + 4);
  if (around) {
    brush.strokeStyle = palette.ink;
    brush.globalAlpha = 0.5;
    brush.strokeRect(at.x(around[0]) - at.wide / 2, 2, (around[1] - around[0]) * at.wide, at.height - 4);
    brush.globalAlpha = 1;
  }
  if (compact) return;
  for (let token = columns[0]; token < columns[1]; token++) {
    const { shown, special } = data.tokens[token];
    brush.font = `${special ? "italic " : ""}${token === state.token ? "bold " : ""}12px ${MONO}`;
    brush.fillStyle = special ? palette.special : palette.ink;
    brush.save();
    brush.translate(at.x(token), at.y(0) + 12);
    if (at.lying) {
      brush.textAlign = "center";
      brush.translate(0, 10);
    } else {
      brush.rotate(-Math.PI / 2);
      brush.translate(0, 4);
    }
    brush.fillText(fitted(shown, at.lying ? at.wide - 2 : LONGEST, 12), 0, 0);
    brush.restore();
  }
}

function highlight(brush, { net, kept, state, palette, hovered }, at) {
  const ring = ({ row, token }, color) => {
    brush.beginPath();
    brush.arc(at.x(token), at.y(row), Math.min(Math.max(at.wide / 3, 3.5), 7), 0, 2 * Math.PI);
    Object.assign(brush, { strokeStyle: color, lineWidth: 2, globalAlpha: 1 });
    brush.stroke();
  };
  ring({ row: rowOf(net, state.layer), token: state.token }, palette.ink);
  if (!hovered) return;
  const { row, token } = hovered;
  Object.assign(brush, { strokeStyle: palette.ink, lineWidth: 1.5, globalAlpha: 0.75 });
  brush.save();
  brush.beginPath();
  brush.rect(LEFT - 4, 0, at.width - LEFT + 4, at.height);
  brush.clip();
  brush.beginPath();
  for (const link of kept)
    if ((link.to === row && link.target === token) || (link.from === row && link.source === token))
      curve(brush, link, at);
  brush.stroke();
  brush.restore();
  ring(hovered, palette.muted);
}

// The same as SVG; of very many links only the strongest.
export function vector(picture) {
  const at = place(picture),
    { net, kept, data, state, palette, columns, compact } = picture;
  const drawing = svg("svg", {
    width: at.width,
    height: at.height,
    viewBox: `0 0 ${at.width} ${at.height}`,
    "font-family": SANS,
    "font-size": 11,
  });
  for (const { color, width, alpha, links } of levels({ ...picture, kept: kept.slice(-MOST) })) {
    const group = svg("g", {
      stroke: color,
      "stroke-width": width.toFixed(2),
      "stroke-opacity": alpha.toFixed(2),
      fill: "none",
    });
    for (const link of links) group.append(svg("path", { d: path(link, at) }));
    drawing.append(group);
  }
  const filling = fillings(picture),
    radius = size(at).toFixed(1);
  for (const [row, layer] of net.rows.entries()) {
    drawing.append(
      svg(
        "text",
        { x: LEFT - 10, y: at.y(row) + 4, "text-anchor": "end", fill: palette.muted },
        row === 0 ? "input" : String(layer),
      ),
    );
    for (let token = columns[0]; token < columns[1]; token++)
      drawing.append(
        svg("circle", {
          cx: at.x(token).toFixed(1),
          cy: at.y(row).toFixed(1),
          r: radius,
          fill: filling(row, token),
          stroke: palette.special,
        }),
      );
  }
  drawing.append(
    svg("circle", {
      cx: at.x(state.token),
      cy: at.y(rowOf(net, state.layer)),
      r: 6,
      fill: "none",
      stroke: palette.ink,
      "stroke-width": 2,
    }),
  );
  if (compact) return drawing;
  for (let token = columns[0]; token < columns[1]; token++) {
    const { shown, special } = data.tokens[token],
      x = at.x(token),
      y = at.y(0) + 12;
    const where = at.lying
      ? { x, y: y + 10, "text-anchor": "middle" }
      : { transform: `translate(${x + 4} ${y}) rotate(-90)`, "text-anchor": "end" };
    drawing.append(
      svg(
        "text",
        {
          ...where,
          "font-family": MONO,
          "font-size": 12,
          fill: special ? palette.special : palette.ink,
          "font-style": special ? "italic" : null,
        },
        fitted(shown, at.lying ? at.wide - 2 : LONGEST, 12),
      ),
    );
  }
  return drawing;
}

function path({ from, source, to, target }, at) {
  const [x1, y1, x2, y2] = [at.x(source), at.y(from), at.x(target), at.y(to)].map((value) => value.toFixed(1)),
    middle = ((Number(y1) + Number(y2)) / 2).toFixed(1);
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
}
