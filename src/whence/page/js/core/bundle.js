// @ts-check
// Columns of a long text: the tokens that matter each have one, neighbours that do not matter share one.

/**
 * @typedef {{ first: number, end: number, share: number }} Column  tokens from the first up to the end, and what they
 *   have together; one token when the end comes right after the first
 */

/**
 * The tokens that matter most stand alone, as many as fit into so many columns or until they have the share that is to
 * be kept; what lies between them is bundled.
 * @param {ArrayLike<number>} weights  of every token, none negative @param {number} most  columns
 * @param {number[]} fixed  tokens that stand alone in any case @param {number} keep  a share of all weights
 * @returns {Column[]}
 */
export function bundled(weights, most, fixed = [], keep = 1) {
  const count = weights.length,
    total = sum(weights, 0, count),
    order = Array.from({ length: count }, (_, at) => at).sort((one, other) => weights[other] - weights[one]);
  const alone = new Set(fixed);
  let kept = fixed.reduce((so, at) => so + weights[at], 0);
  for (const at of order) {
    if (alone.has(at)) continue;
    if (kept >= keep * total || columnsOf(alone, count, at) > most) break;
    alone.add(at);
    kept += weights[at];
  }
  return cut(alone, count).map(([first, end]) => ({ first, end, share: sum(weights, first, end) }));
}

/** Every token on its own. @param {ArrayLike<number>} weights @returns {Column[]} */
export function single(weights) {
  return Array.from({ length: weights.length }, (_, at) => ({ first: at, end: at + 1, share: weights[at] }));
}

/** The column in which each token stands. @param {Column[]} columns */
export function placesOf(columns) {
  return Int32Array.from(columns.flatMap(({ first, end }, at) => Array(end - first).fill(at)));
}

/** @param {Column} column */
export function isBundle({ first, end }) {
  return end - first > 1;
}

// How many columns there are once this token stands alone too.
function columnsOf(alone, count, at) {
  return cut(new Set([...alone, at]), count).length;
}

// Runs of tokens: those that stand alone, and what lies between them.
function cut(alone, count) {
  const ends = [...alone].sort((one, other) => one - other),
    runs = [];
  let from = 0;
  for (const at of ends) {
    if (at > from) runs.push([from, at]);
    runs.push([at, at + 1]);
    from = at + 1;
  }
  if (from < count) runs.push([from, count]);
  return runs;
}

/** @param {ArrayLike<number>} values */
export function sum(values, first, end) {
  let total = 0;
  for (let at = first; at < end; at++) total += values[at] || 0;
  return total;
}
