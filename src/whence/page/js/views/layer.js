// @ts-check
// The heads of one layer, large enough to be read, beside the overview of all.

import { fresh, sinks } from "../core/data.js";
import { SANS, h, once } from "../core/dom.js";
import { wrappedLayout } from "../core/layout.js";
import { painter, shading, strips } from "./tiles.js";
import { walkable } from "../core/walk.js";

/**
 * @param {HTMLElement} container @param {import("../core/data.js").Data} data
 * @param {{ name: string, layer: number, head: number | "mean", room: number, key: string,
 *   describe(head: number): string, go(head: number): void, open(head: number): void }} look
 * @param {import("../core/scale.js").Palette} palette
 */
export function render(container, data, { name, layer, head, room, key, describe, go, open }, palette) {
  const parts = once(container, () => build(container)),
    at = wrappedLayout(data.heads, room),
    chosen = head === "mean" ? 0 : head,
    drawn = [name, layer, at.side, key].join(" ");
  parts.heading.textContent = `Layer ${data.layers[layer]}, larger`;
  if (parts.drawn !== drawn) paint(parts.canvas, data, name, layer, at, palette);
  parts.drawn = drawn;
  const { x, y } = at.place(chosen);
  parts.mark.hidden = head === "mean";
  Object.assign(parts.mark.style, { left: `${x}px`, top: `${y}px`, width: `${at.side}px`, height: `${at.side}px` });
  const number = (cell) => Math.min(cell.row * at.columns + cell.column, data.heads - 1);
  parts.frame.setAttribute(
    "aria-label",
    `Heads of one layer. Arrow keys move; Enter opens the map. ${describe(chosen)}`,
  );
  walkable(parts.frame, {
    at,
    describe: (cell) => `${describe(number(cell))}\nclick to open in Who from whom`,
    pick: (cell) => open(number(cell)),
    open: (cell) => open(number(cell)),
    keys: {
      here: { row: Math.floor(chosen / at.columns), column: chosen % at.columns },
      ...{ rows: at.rows, columns: at.columns, up: -1 },
      say: (cell) => describe(number(cell)),
      go: (cell) => go(number(cell)),
    },
  });
}

/** @param {HTMLElement} container */
function build(container) {
  const [heading, canvas, mark] = [h("h3", {}), h("canvas", {}), h("div", { class: "mark" })],
    look = { class: "grid tiles", tabindex: "0", role: "application", "aria-roledescription": "small multiples" },
    frame = h("div", look, canvas, mark);
  container.append(heading, frame);
  return { heading, canvas, mark, frame, drawn: "" };
}

/** @param {HTMLCanvasElement} canvas @param {ReturnType<typeof wrappedLayout>} at */
function paint(canvas, data, name, layer, at, palette) {
  const sharp = Math.max(devicePixelRatio, 2),
    { side } = at,
    tile = painter(data.tokens.length, shading(data, name, palette), side * sharp);
  Object.assign(canvas, { width: at.width * sharp, height: at.height * sharp });
  Object.assign(canvas.style, { width: `${at.width}px`, height: `${at.height}px` });
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  context.imageSmoothingEnabled = false;
  Object.assign(context, { strokeStyle: palette.line, fillStyle: palette.muted, font: `11px ${SANS}` });
  for (let head = 0; head < data.heads; head++) {
    const { x, y } = at.place(head);
    context.drawImage(tile(fresh(data, name, layer, head)), x, y, side, side);
    context.strokeRect(x, y, side, side);
    context.fillText(`head ${head}`, x, y - 5);
    for (const { top, high } of strips(sinks(data, layer, head), side))
      context.fillRect(x + side + 1, y + top, 2, high);
  }
}
