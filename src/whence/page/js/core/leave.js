// How a picture leaves the page: SVG, PNG, CSV of exactly what is drawn, and the same numbers as a table.

import { SANS, h, svg, textWidth } from "./dom.js";

const HEADING = 13;

// `pictures()` gives drawings, `table()` gives { header, rows }, `words()` gives { title, subtitle, name };
// `also()` gives { name, table } of the numbers that are drawn beside those of the table, or null.
export function buttons({ pictures, table, also, words, palette }) {
  const shown = h("div", { class: "numbers", hidden: "" });
  const save = (ending, make) => async () => download(`${words().name}.${ending}`, await make());
  const png = async () => new Blob([await bitmap(pictures(), words(), palette())], { type: "image/png" });
  const drawing = () => new Blob([serialized(compose(pictures(), words(), palette()))], { type: "image/svg+xml" });
  const unfold = (event) => {
    shown.hidden = !shown.hidden;
    event.target.setAttribute("aria-expanded", String(!shown.hidden));
    if (!shown.hidden)
      shown.replaceChildren(numbers(table(), words().title), ...(also() ? [numbers(also().table(), also().name)] : []));
  };
  const second = h("button", {
    type: "button",
    hidden: "",
    onclick: () => download(`${words().name}-${also().name}.csv`, csv(also().table())),
  });
  const row = h(
    "div",
    { class: "leave" },
    h("button", { type: "button", onclick: save("svg", drawing) }, "SVG"),
    h("button", { type: "button", onclick: save("png", png) }, "PNG"),
    h("button", { type: "button", onclick: save("csv", () => csv(table())) }, "CSV"),
    second,
    h("button", { type: "button", onclick: unfold, "aria-expanded": "false" }, "Table"),
  );
  const fresh = () => {
    shown.hidden = true;
    row.lastChild.setAttribute("aria-expanded", "false");
    second.hidden = !also();
    second.textContent = `CSV, ${also()?.name}`;
  };
  return { row, shown, fresh };
}

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

// Drawings side by side under their title, as one.
function compose(pictures, { title, subtitle }, palette) {
  const gap = 24,
    named = (one) => one.getAttribute("data-title") ?? "";
  const sizes = pictures.map((one) => [
    Math.max(Number(one.getAttribute("width")), textWidth(named(one), HEADING, SANS) * 1.1),
    Number(one.getAttribute("height")),
  ]); // bold is wider
  const width = Math.max(
    sizes.reduce((sum, [wide]) => sum + wide + gap, gap),
    480,
  );
  const lines = [...wrapped(title, width / 9.2), null, ...wrapped(subtitle, width / 6.4)];
  const parts = [];
  let top = 14,
    small = false;
  for (const text of lines) {
    if (text === null) {
      small = true;
      top += 4;
      continue;
    }
    top += small ? 16 : 21;
    parts.push(
      svg(
        "text",
        {
          x: gap,
          y: top,
          "font-family": SANS,
          "font-size": small ? 12 : 16,
          "font-weight": small ? 400 : 600,
          fill: small ? palette.muted : palette.ink,
        },
        text,
      ),
    );
  }
  top += 28;
  let left = gap;
  for (const [place, picture] of pictures.entries()) {
    const inner = picture.cloneNode(true);
    inner.setAttribute("x", left);
    inner.setAttribute("y", top);
    parts.push(
      inner,
      svg(
        "text",
        { x: left, y: top - 4, "font-family": SANS, "font-size": HEADING, "font-weight": 600, fill: palette.ink },
        named(picture),
      ),
    );
    left += sizes[place][0] + gap;
  }
  const height = top + Math.max(...sizes.map(([, high]) => high)) + gap;
  return svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}` },
    svg("rect", { width, height, fill: palette.paper }),
    ...parts,
  );
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

async function bitmap(pictures, words, palette) {
  const drawing = compose(pictures, words, palette);
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([serialized(drawing)], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = h("canvas", { width: drawing.getAttribute("width") * 2, height: drawing.getAttribute("height") * 2 });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return blob(canvas);
}

function blob(canvas) {
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function download(name, content) {
  const link = h("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
