// @ts-check
// Where the tokens of a picture or a sound are drawn: the cells of a patch, the columns of a frame.

/**
 * @typedef {{ rows: number, columns: number, image: string }} Picture
 * @typedef {{ kind: "picture" | "sound", words: Record<string, string>, cells?: ([number, number, number] | null)[],
 *   pictures?: Picture[], spans?: [number, number][] }} Scene
 * @typedef {{ width: number, height: number }} Size
 * @typedef {{ x: number, y: number, width: number, height: number }} Box
 */

const TALLEST = 380,
  SOUND = { top: 10, bottom: 24, height: 190 };

/** Which tokens the scene has, and not the text. @param {Scene | null | undefined} scene @returns {boolean[]} */
export function placed(scene, count) {
  if (!scene) return Array(count).fill(false);
  return scene.kind === "sound" ? Array(count).fill(true) : scene.cells.map((cell) => cell !== null);
}

/** How large a picture is drawn, its patches square. @param {Picture} picture @param {number} room @returns {Size} */
export function sizeOf({ rows, columns }, room) {
  const side = Math.min(room / columns, TALLEST / rows);
  return { width: columns * side, height: rows * side };
}

/** The token of every cell of a picture; -1 where there is none. @param {Scene} scene @param {number} number */
export function tokensIn({ cells, pictures }, number) {
  const { rows, columns } = pictures[number],
    found = new Int32Array(rows * columns).fill(-1);
  for (const [token, cell] of cells.entries())
    if (cell && cell[0] === number) found[cell[1] * columns + cell[2]] = token;
  return found;
}

/** @param {Picture} picture @param {Size} size @param {number} row @param {number} column @returns {Box} */
export function patch({ rows, columns }, { width, height }, row, column) {
  const [wide, high] = [width / columns, height / rows];
  return { x: column * wide, y: row * high, width: wide, height: high };
}

/**
 * The column of a frame and its bar: from a common zero up, and down where the value is negative. Frames overlap in
 * what they read, so each is drawn from its start to that of the next.
 * @param {[number, number][]} spans @param {ArrayLike<number>} values @param {number} end @param {number} width
 */
export function columnsOf(spans, values, end, width) {
  const last = spans.at(-1)[1],
    least = Math.min(0, ...Array.from(values)) / end,
    most = Math.max(0, ...Array.from(values)) / end,
    room = SOUND.height - SOUND.top - SOUND.bottom,
    unit = room / (Math.min(most, 1) - Math.max(least, -1) || 1),
    zero = SOUND.top + Math.min(most, 1) * unit,
    x = (time) => (time / last) * width;
  const bars = spans.map(([start, stop], at) => {
    const value = Math.min(Math.max(values[at] / end, -1), 1),
      next = at + 1 < spans.length ? spans[at + 1][0] : Math.min(stop, start + (start - (spans[at - 1]?.[0] ?? 0)));
    return {
      ...{ x: x(start), width: Math.max(x(next) - x(start) - 0.4, 0.6) },
      ...{ y: value < 0 ? zero : zero - value * unit, height: Math.abs(value) * unit },
    };
  });
  return { bars, zero, height: SOUND.height, last, x };
}

/** The frame at a place of the drawing. @param {[number, number][]} spans @param {number} share of its width */
export function frameAt(spans, share) {
  const time = share * spans.at(-1)[1];
  return Math.max(
    spans.findLastIndex(([start]) => start <= time),
    0,
  );
}

/** Round times for an axis, some five of them. @param {number} last */
export function times(last) {
  const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60].find(
      (one) => last / one <= 6,
    ),
    every = step ?? Math.ceil(last / 6);
  return Array.from({ length: Math.floor(last / every + 1e-9) + 1 }, (_, at) => Number((at * every).toFixed(3)));
}
