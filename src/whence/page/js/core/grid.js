// A grid of coloured cells with labels: drawn as SVG, read by hovering, walked with the arrow keys.

import { MONO, SANS, announce, fitted, h, hush, once, svg, tell, textWidth } from "./dom.js";
import { inkOn } from "./scale.js";

export const LONG = 60; // more columns than this are drawn without labels, with a closer look below
export const NARROW = 13; // so are columns narrower than this, in pixels
const MOST_CELLS = 1500,
  MOST_SMALL = 300; // more cells than this become one image on screen; without numbers sooner
const LABEL = 12,
  SMALL = 11,
  LONGEST = 96; // font sizes, longest label in pixels

// Draws the grid into the container and keeps it there: the whole, and a closer look when columns are too many.
//
// spec: rows, columns: [{ text, special }] · value(row, column) · scale · format · describe(row, column)
//       selected: { row, column } · select({ row, column }) · name · corner · labels: "top" or "bottom"
//       values: the array behind value(), where the same array is drawn again and again
//       tall, wide: largest cell · side: { title, text(row) } · marked: a column to point at
export function grid(container, spec, palette) {
  const parts = once(container, () => {
    const whole = frame(),
      close = frame();
    const caption = h("p", { class: "closer" });
    container.append(whole.element, caption, close.element);
    return { whole, close, caption };
  });
  const room = Math.max(container.clientWidth, 240);
  const compact = isCompact(spec, room);
  const around = compact ? closer(spec, room) : null;
  show(parts.whole, spec, draw(spec, palette, room, { compact, around }), palette);
  parts.close.element.hidden = parts.caption.hidden = !compact;
  if (!compact) return;
  parts.caption.textContent = `A closer look at tokens ${around.columns[0]} to ${around.columns[1] - 1} of ${spec.columns.length}`;
  show(parts.close, { ...spec, name: `${spec.name}, a closer look` }, draw(spec, palette, room, around), palette);
}

// The grid as it is drawn, for leaving the page: every cell its own rectangle.
export function drawing(container, spec, palette) {
  const room = Math.max(container.clientWidth, 240);
  const { picture } = draw({ ...spec, selected: null }, palette, room, {
    compact: isCompact(spec, room),
    cells: 60_000,
  });
  picture.setAttribute("data-title", spec.heading ?? "");
  return picture;
}

function isCompact(spec, room) {
  return spec.columns.length > LONG || (room - gutter(spec, false)) / spec.columns.length < NARROW;
}

function closer(spec, room) {
  const span = (count, at, most) => {
    const first = Math.min(Math.max(at - Math.floor(most / 2), 0), Math.max(count - most, 0));
    return [first, Math.min(first + most, count)];
  };
  const many = Math.max(Math.floor((room - gutter(spec, false) - sideWidth(spec)) / (spec.square ? 24 : 33)), 4); // room for numbers
  const columns = span(spec.columns.length, spec.selected.column, Math.min(many, 32));
  return { columns, rows: spec.square ? span(spec.rows.length, spec.selected.row, Math.min(many, 16)) : undefined };
}

export function gutter(spec, compact) {
  if (compact && spec.square) return 8;
  const longest = Math.max(...spec.rows.map((row) => Math.min(textWidth(row.text, LABEL), LONGEST)));
  return Math.ceil(Math.max(longest, spec.corner ? textWidth(spec.corner, SMALL, SANS) : 0)) + 10;
}

function sideWidth(spec) {
  return spec.side ? 52 : 4;
}

function draw(
  spec,
  palette,
  room,
  { compact = false, columns, rows, around, cells = compact ? MOST_SMALL : MOST_CELLS } = {},
) {
  const [firstColumn, endColumn] = columns ?? [0, spec.columns.length];
  const [firstRow, endRow] = rows ?? [0, spec.rows.length];
  const across = endColumn - firstColumn,
    down = endRow - firstRow;
  const left = gutter(spec, compact),
    right = sideWidth(spec);
  const wide = Math.min((room - left - right) / across, compact ? Infinity : spec.wide);
  const tall = spec.square ? Math.min(wide, compact ? wide : spec.tall) : spec.tall;
  const shown = spec.columns.slice(firstColumn, endColumn);
  const lying =
    !compact &&
    shown.every((column) => textWidth(column.text, LABEL) <= wide - 6 || textWidth(column.text, LABEL) > LONGEST * 2) &&
    wide >= 40;
  const labels = compact
    ? 4
    : lying
      ? 22
      : Math.max(...shown.map((column) => Math.min(textWidth(column.text, LABEL), LONGEST))) + 12;
  const top = spec.labels === "top" ? labels + (compact ? 2 : 0) : 18;
  const bottom = spec.labels === "top" ? 4 : labels;
  const width = Math.ceil(left + across * wide + right),
    grids = down * tall;
  const height = Math.ceil(top + grids + bottom + 34);
  const at = { left, top, wide, tall, across, down, firstRow, firstColumn };

  const picture = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "aria-hidden": "true",
    "font-family": SANS,
  });
  picture.append(
    svg("rect", { x: left, y: top, width: across * wide, height: grids, fill: "none", stroke: palette.line }),
  );
  picture.append(across * down > cells ? image(spec, at) : rectangles(spec, at));
  if (!(compact && spec.square)) picture.append(rowLabels(spec, at, palette));
  if (!compact) picture.append(columnLabels(spec, at, palette, lying, shown));
  if (spec.corner)
    picture.append(
      svg(
        "text",
        {
          x: left - 6,
          y: spec.labels === "top" ? top - 5 : 12,
          "text-anchor": "end",
          "font-size": SMALL,
          fill: palette.muted,
        },
        spec.corner,
      ),
    );
  if (spec.side) picture.append(sideNotes(spec, at, palette));
  if (compact) picture.append(...brackets(spec, at, palette, around));
  if (Number.isInteger(spec.marked) && spec.marked >= firstColumn && spec.marked < endColumn)
    picture.append(
      svg("rect", {
        x: left + (spec.marked - firstColumn) * wide,
        y: top,
        width: wide,
        height: grids,
        fill: "none",
        stroke: palette.muted,
        "stroke-dasharray": "2 2",
      }),
    );
  if (spec.selected) picture.append(...outline(spec.selected, at, palette));
  picture.append(legend(spec, left, height - 26, Math.min(across * wide, 220), palette));
  return { picture, at };
}

function rectangles(spec, at) {
  const all = svg("g", { "shape-rendering": "crispEdges" });
  const words = svg("g", { "font-size": SMALL, "text-anchor": "middle" });
  const roomy = at.wide >= 32 && at.tall >= 17 && spec.numbers !== false;
  for (let row = 0; row < at.down; row++)
    for (let column = 0; column < at.across; column++) {
      const value = spec.value(row + at.firstRow, column + at.firstColumn);
      if (!Number.isFinite(value)) continue;
      const x = at.left + column * at.wide,
        y = at.top + row * at.tall;
      all.append(svg("rect", { x, y, width: at.wide, height: at.tall, fill: spec.scale.color(value) }));
      if (roomy)
        words.append(
          svg(
            "text",
            { x: x + at.wide / 2, y: y + at.tall / 2 + 4, fill: inkOn(spec.scale.rgb(value)) },
            spec.brief(value),
          ),
        );
    }
  return svg("g", {}, all, words);
}

function image(spec, at) {
  const known = pixelled.get(spec.values),
    key = `${spec.scale.color(0)} ${spec.scale.limit} ${at.firstRow} ${at.firstColumn} ${at.down} ${at.across}`;
  const href = known?.key === key ? known.href : pixels(spec, at);
  if (spec.values) pixelled.set(spec.values, { key, href });
  return svg("image", {
    href,
    x: at.left,
    y: at.top,
    width: at.across * at.wide,
    height: at.down * at.tall,
    preserveAspectRatio: "none",
    "image-rendering": "pixelated",
  });
}
const pixelled = new WeakMap();

// One pixel per cell; what cannot be seen stays transparent.
function pixels(spec, at) {
  const canvas = h("canvas", { width: at.across, height: at.down });
  const context = canvas.getContext("2d"),
    block = context.createImageData(at.across, at.down);
  for (let place = 0, row = 0; row < at.down; row++)
    for (let column = 0; column < at.across; column++, place += 4) {
      const value = spec.value(row + at.firstRow, column + at.firstColumn);
      if (Number.isFinite(value)) block.data.set([...spec.scale.rgb(value), 255], place);
    }
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
    group.append(
      svg(
        "text",
        { x: at.left - 6, y: at.top + (row + 0.5) * at.tall + 4, ...ink(special, picked, palette) },
        fitted(text, LONGEST, LABEL),
      ),
    );
  }
  return group;
}

function columnLabels(spec, at, palette, lying, shown) {
  const group = svg("g", { "font-size": LABEL, "font-family": MONO });
  const above = spec.labels === "top";
  const y = above ? at.top - 7 : at.top + at.down * at.tall + (lying ? 15 : 7);
  for (const [column, { text, special }] of shown.entries()) {
    const x = at.left + (column + 0.5) * at.wide;
    const picked = [spec.selected?.column, spec.marked].includes(column + at.firstColumn);
    const place = lying
      ? { x, y, "text-anchor": "middle" }
      : { x: 0, y: 0, transform: `translate(${x + 4} ${y}) rotate(-90)`, "text-anchor": above ? "start" : "end" };
    group.append(
      svg("text", { ...place, ...ink(special, picked, palette) }, fitted(text, lying ? at.wide - 4 : LONGEST, LABEL)),
    );
  }
  return group;
}

function ink(special, picked, palette) {
  return {
    fill: special ? palette.special : palette.ink,
    "font-style": special ? "italic" : null,
    "font-weight": picked ? 700 : null,
  };
}

function sideNotes(spec, at, palette) {
  const x = at.left + at.across * at.wide + 48;
  const group = svg(
    "g",
    { "font-size": SMALL, "text-anchor": "end", fill: palette.muted },
    svg("text", { x, y: 12 }, spec.side.title),
  );
  for (let row = 0; row < at.down; row++)
    group.append(svg("text", { x, y: at.top + (row + 0.5) * at.tall + 4 }, spec.side.text(row + at.firstRow)));
  return group;
}

// Which part of the whole the closer look shows.
function brackets(spec, at, palette, around) {
  if (!around) return [];
  const [first, end] = around.columns,
    [above, below] = around.rows ?? [0, at.down];
  const box = {
    x: at.left + first * at.wide,
    width: (end - first) * at.wide,
    y: at.top + above * at.tall,
    height: (below - above) * at.tall,
  };
  return [svg("rect", { ...box, fill: "none", stroke: palette.ink, "stroke-opacity": 0.55 })];
}

function outline({ row, column }, at, palette) {
  const down = row - at.firstRow,
    across = column - at.firstColumn;
  if (down < 0 || down >= at.down || across < 0 || across >= at.across) return [];
  const box = {
    x: at.left + across * at.wide,
    y: at.top + down * at.tall,
    width: at.wide,
    height: at.tall,
    fill: "none",
  };
  return [
    svg("rect", { ...box, stroke: palette.paper, "stroke-width": 4 }),
    svg("rect", { ...box, stroke: palette.ink, "stroke-width": 2 }),
  ];
}

function legend(spec, left, top, width, palette) {
  const { limit, signed } = spec.scale,
    low = signed ? -limit : 0,
    steps = 40;
  const group = svg("g", { "font-size": SMALL, fill: palette.muted });
  for (let step = 0; step < steps; step++)
    group.append(
      svg("rect", {
        x: left + (step * width) / steps,
        y: top,
        width: width / steps + 0.5,
        height: 8,
        fill: spec.scale.color(low + ((limit - low) * (step + 0.5)) / steps),
      }),
    );
  group.append(svg("rect", { x: left, y: top, width, height: 8, fill: "none", stroke: palette.line }));
  const word = (x, anchor, text) => svg("text", { x, y: top + 21, "text-anchor": anchor }, text);
  group.append(
    word(left, "start", `${signed && spec.beyond ? "≤ " : ""}${spec.format(low)}`),
    word(left + width, "end", `${spec.beyond ? "≥ " : ""}${spec.format(limit)}`),
  );
  if (signed) group.append(word(left + width / 2, "middle", "0"));
  return group;
}

// Interaction

function frame() {
  const element = h("div", { class: "grid", tabindex: "0", role: "application", "aria-roledescription": "heat map" });
  return { element, hover: svg("rect", { fill: "none", "pointer-events": "none", "stroke-width": 1.5 }) };
}

const STEPS = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

function show({ element, hover }, spec, { picture, at }, palette) {
  element.setAttribute(
    "aria-label",
    `${spec.name}. Arrow keys move; ${spec.describe(spec.selected.row, spec.selected.column)}`,
  );
  element.replaceChildren(picture);
  hover.setAttribute("stroke", palette.ink);
  hover.setAttribute("visibility", "hidden");
  picture.append(hover);
  const locate = (event) => {
    const box = picture.getBoundingClientRect();
    const shrunk = picture.getAttribute("width") / box.width; // a window narrowed since the drawing
    const column = Math.floor(((event.clientX - box.left) * shrunk - at.left) / at.wide);
    const row = Math.floor(((event.clientY - box.top) * shrunk - at.top) / at.tall);
    const inside = row >= 0 && row < at.down && column >= 0 && column < at.across;
    return inside ? { row: row + at.firstRow, column: column + at.firstColumn } : null;
  };
  element.onpointermove = (event) => {
    const cell = locate(event);
    hover.setAttribute("visibility", cell ? "visible" : "hidden");
    if (!cell) return hush();
    const box = {
      x: at.left + (cell.column - at.firstColumn) * at.wide,
      y: at.top + (cell.row - at.firstRow) * at.tall,
      width: at.wide,
      height: at.tall,
    };
    for (const [name, value] of Object.entries(box)) hover.setAttribute(name, value);
    tell(event, spec.describe(cell.row, cell.column));
  };
  element.onpointerleave = () => {
    hover.setAttribute("visibility", "hidden");
    hush();
  };
  element.onclick = (event) => {
    const cell = locate(event);
    if (cell) spec.select(cell);
  };
  element.onkeydown = (event) => {
    const step = STEPS[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const within = (value, count) => Math.min(Math.max(value, 0), count - 1);
    const cell = {
      row: within(spec.selected.row + step[0], spec.rows.length),
      column: within(spec.selected.column + step[1], spec.columns.length),
    };
    spec.selected = cell; // the next key may come before the next drawing
    spec.select(cell);
    announce(spec.describe(cell.row, cell.column));
  };
}
