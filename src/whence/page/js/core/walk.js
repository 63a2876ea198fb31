// @ts-check
// Keys and pointer, once for every picture: arrows walk, Home and End go to the ends, Enter opens, Escape hushes; what
// the mouse is over, or a finger touched, is told.

import { announce, hush, tell } from "./dom.js";

/**
 * @typedef {{ row: number, column: number }} Cell
 * @typedef {{ width: number, find(x: number, y: number): Cell | null }} Place  where the cells of a drawing are
 * @typedef {{ here: Cell, rows: number, columns: number, up?: 1 | -1, go(cell: Cell): void,
 *   say?(cell: Cell): string }} Keys  `up` is what the upward arrow adds to the row
 * @typedef {{ at: Place, describe(cell: Cell): string, pick(cell: Cell): void, hover?(cell: Cell | null): void,
 *   open?(cell: Cell): void, keys: Keys }} Walk  Enter opens the cell where the keys are
 */

/** @type {Record<string, [number, number]>} */
const STEPS = {
  ArrowUp: [1, 0],
  ArrowDown: [-1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/**
 * The cell to which a key goes; null when it goes nowhere in a picture of this size.
 * @param {string} key @param {Pick<Keys, "here" | "rows" | "columns" | "up">} keys @returns {Cell | null}
 */
export function stepped(key, { here, rows, columns, up = 1 }) {
  const step = STEPS[key];
  if (!step || (step[0] && rows < 2)) return null;
  return { row: within(here.row + up * step[0], rows), column: within(here.column + step[1], columns) };
}

/**
 * Lets a picture be read and walked; called again after every drawing.
 * @param {HTMLElement} element @param {Walk} walk
 */
export function walkable(element, { at, describe, pick, hover = () => {}, open, keys }) {
  const find = (event) => {
    const box = element.firstElementChild.getBoundingClientRect(),
      shrunk = at.width / box.width; // a window narrowed since the drawing
    return at.find((event.clientX - box.left) * shrunk, (event.clientY - box.top) * shrunk);
  };
  const over = (event) => {
    const cell = find(event);
    hover(cell);
    if (cell) tell(event, describe(cell));
    else hush();
    return cell;
  };
  const away = () => {
    hover(null);
    hush();
  };
  let here = keys.here;
  element.onpointermove = over;
  element.onpointerleave = (event) => event.pointerType !== "touch" && away(); // a finger leaves before it clicks
  element.onblur = away;
  element.onclick = (event) => {
    const cell = over(event);
    if (cell) pick(cell);
  };
  element.onkeydown = (event) => {
    if (modified(event)) return;
    if (event.key === "Escape") return away();
    if (event.key === "Enter" && open) return open(here);
    const cell = stepped(event.key, { ...keys, here });
    if (!cell) return;
    event.preventDefault();
    here = cell; // the next key may come before the next drawing
    keys.go(cell);
    announce((keys.say ?? describe)(cell));
  };
}

/**
 * A row of buttons of which one is chosen: arrow keys go along, one stop of Tab for all.
 * @param {HTMLElement} row @param {HTMLElement[]} buttons @param {number} chosen
 * @param {(place: number) => void} choose
 */
export function roving(row, buttons, chosen, choose) {
  for (const [place, button] of buttons.entries()) button.tabIndex = place === chosen ? 0 : -1;
  row.onkeydown = (event) => {
    const cell = stepped(event.key, { here: { row: 0, column: chosen }, rows: 1, columns: buttons.length });
    if (!cell || modified(event)) return;
    event.preventDefault();
    choose((chosen = cell.column));
    buttons[chosen].focus();
  };
}

/**
 * Enter sends what was typed; with Shift it breaks the line.
 * @param {HTMLTextAreaElement} field @param {() => void} send
 */
export function entered(field, send) {
  field.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    send();
  };
}

function modified(event) {
  return event.ctrlKey || event.metaKey || event.altKey;
}

export function within(value, count) {
  return Math.min(Math.max(value, 0), count - 1);
}
