// @ts-check
// How a picture leaves the page: SVG, PNG, CSV of exactly what is drawn, and the same numbers as a table.

import { SANS, h, svg, textWidth } from "./dom.js";

const HEADING = 13;

/**
 * @typedef {import("./figure.js").Held} Held
 * @typedef {{ header: string[], rows: (string | number)[][] }} Table
 */

/** The buttons below a figure, and where its numbers unfold. @param {Held} held */
export function buttons(held) {
  const shown = h("div", { class: "numbers", hidden: "" });
  const button = (text, onclick, more = {}) => h("button", { type: "button", onclick, ...more }, text);
  const save = (ending, make) => async () => download(`whence-${held.name}.${ending}`, await make());
  const drawing = () => new Blob([serialized(compose(held))], { type: "image/svg+xml" });
  const unfold = () => {
    shown.hidden = !shown.hidden;
    table.setAttribute("aria-expanded", String(!shown.hidden));
    const also = held.also ? [numbers(held.also.table(), held.also.name)] : [];
    if (!shown.hidden) shown.replaceChildren(numbers(held.table(), held.title), ...also);
  };
  const second = button("", () => download(`whence-${held.name}-${held.also.name}.csv`, csv(held.also.table())));
  const table = button("Table", unfold, { "aria-expanded": "false" });
  const row = h(
    "div",
    { class: "leave" },
    button("SVG", save("svg", drawing)),
    button(
      "PNG",
      save("png", () => bitmap(held)),
    ),
    button(
      "CSV",
      save("csv", () => csv(held.table())),
    ),
    ...[second, table],
  );
  const fresh = () => {
    shown.hidden = true;
    table.setAttribute("aria-expanded", "false");
    second.hidden = !held.also;
    second.textContent = `CSV, ${held.also?.name}`;
  };
  return { row, shown, fresh };
}

/** @param {Table} table */
export function csv({ header, rows }) {
  const lines = [header, ...rows].map((cells) => `${cells.map(quoted).join(",")}\r\n`);
  return new Blob(lines, { type: "text/csv" });
}

export function quoted(cell) {
  if (typeof cell === "number") return Number.isFinite(cell) ? String(Number(cell.toPrecision(6))) : "";
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell; // a spreadsheet would run it
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const MOST_ROWS = 2000;
function numbers({ header, rows }, title) {
  const line = (kind, cells) =>
    h("tr", {}, ...cells.map((cell) => h(kind, {}, h("bdi", {}, typeof cell === "number" ? quoted(cell) : cell))));
  const body = rows.slice(0, MOST_ROWS).map((cells) => line("td", cells));
  const rest =
    rows.length > MOST_ROWS ? `${title}; the first ${MOST_ROWS} of ${rows.length} rows, the CSV has all` : title;
  return h("table", {}, h("caption", {}, rest), h("thead", {}, line("th", header)), h("tbody", {}, ...body));
}

// Drawings side by side under their title, as one. On screen a picture is as wide as its container; here, as itself.
/** @param {Held} held */
function compose({ pictures, title, subtitle, palette, credit }) {
  const gap = 24,
    all = pictures(palette),
    named = (one) => one.getAttribute("data-title") ?? "",
    size = (one, name) => Number(one.getAttribute(name));
  const wide = all.map((one) => Math.max(size(one, "width"), textWidth(named(one), HEADING, SANS) * 1.1)); // bold
  const width = Math.max(gap + wide.reduce((sum, one) => sum + one + gap, 0), 480),
    type = { "font-family": SANS, fill: palette.ink, "font-weight": 600 };
  const [first, second] = [wrapped(title, width / 9.2), wrapped(subtitle, width / 6.4)];
  const parts = first.map((text, line) => svg("text", { x: gap, y: 35 + 21 * line, ...type, "font-size": 16 }, text));
  let top = 18 + 21 * first.length,
    left = gap;
  const small = { "font-size": 12, "font-weight": 400, fill: palette.muted };
  for (const text of second) parts.push(svg("text", { x: gap, y: (top += 16), ...type, ...small }, text));
  top += 28;
  for (const [place, picture] of all.entries()) {
    picture.setAttribute("x", String(left));
    picture.setAttribute("y", String(top));
    parts.push(svg("text", { x: left, y: top - 4, ...type, "font-size": HEADING }, named(picture)));
    left += wide[place] + gap;
  }
  const end = top + Math.max(...all.map((one) => size(one, "height"))),
    lines = wrapped(credit, width / 5.4),
    height = end + 14 * lines.length + gap;
  for (const [line, text] of lines.entries())
    parts.push(svg("text", { x: gap, y: end + 20 + 14 * line, ...type, ...small, "font-size": 10 }, text));
  const paper = svg("rect", { width, height, fill: palette.paper });
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, paper, ...all, ...parts);
}

export function wrapped(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push("");
    lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
  }
  return lines;
}

function serialized(drawing) {
  return new XMLSerializer().serializeToString(drawing);
}

/** @param {Held} held @returns {Promise<Blob>} */
async function bitmap(held) {
  const drawing = compose(held),
    image = new Image();
  image.src = URL.createObjectURL(new Blob([serialized(drawing)], { type: "image/svg+xml" }));
  await image.decode();
  const [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)) * 2),
    canvas = h("canvas", { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function download(name, content) {
  const link = h("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
