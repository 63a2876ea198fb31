// @ts-check
// A map as pixels: level of detail for more cells than a screen can show, and colours that are looked up.

/**
 * @typedef {{ firstRow: number, firstColumn: number, down: number, across: number }} Part  of a map
 */

const STEPS = 255;

/**
 * The values of a part of a map, at most so many rows and columns of them: each stands for a block of cells and is the
 * one farthest from zero, so that a thin line stays in sight; NaN where a block has no value.
 * @param {(row: number, column: number) => number} value @param {Part} part @param {number} most  columns
 * @param {number} rows  at most
 */
export function pooled(value, { firstRow, firstColumn, down, across }, most, rows = most) {
  const few = (count, limit) => Math.min(count, Math.max(Math.floor(limit), 1)),
    [high, wide] = [few(down, rows), few(across, most)],
    found = new Float32Array(high * wide).fill(NaN);
  for (let row = 0; row < down; row++) {
    const start = Math.floor((row * high) / down) * wide;
    for (let column = 0; column < across; column++) {
      const at = start + Math.floor((column * wide) / across),
        here = value(firstRow + row, firstColumn + column);
      if (Number.isFinite(here) && !(Math.abs(found[at]) >= Math.abs(here))) found[at] = here;
    }
  }
  return { values: found, wide, high };
}

/**
 * A part of a map cut into bands of rows with so many cells at most, so that none takes long to paint.
 * @param {Part} part @param {number} most @returns {Part[]}
 */
export function bands({ firstRow, firstColumn, down, across }, most) {
  const count = Math.min(Math.max(Math.ceil((down * across) / most), 1), Math.max(down, 1)),
    edge = (at) => Math.round((at * down) / count);
  return Array.from({ length: count }, (_, at) => ({
    ...{ firstRow: firstRow + edge(at), firstColumn, down: edge(at + 1) - edge(at), across },
  }));
}

/**
 * Colours of a scale as little-endian pixels, looked up instead of computed; what is no number is transparent.
 * @param {import("./scale.js").Scale} scale @returns {(value: number) => number}
 */
export function lookup({ limit, signed, rgb }) {
  const low = signed ? -limit : 0,
    factor = STEPS / (limit - low),
    colors = new Uint32Array(STEPS + 1);
  for (let step = 0; step <= STEPS; step++) {
    const [red, green, blue] = rgb(low + ((limit - low) * step) / STEPS);
    colors[step] = (255 << 24) | (blue << 16) | (green << 8) | red;
  }
  return (value) =>
    Number.isNaN(value) ? 0 : colors[Math.min(Math.max(Math.round((value - low) * factor), 0), STEPS)];
}
