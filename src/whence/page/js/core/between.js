// @ts-check
// Two rows of words with ribbons between them: what the words of an answer have from those of its source, and where
// everything lies.

import { sum } from "./bundle.js";

/**
 * @typedef {[number, number]} Word  its first token, and the one behind its last
 * @typedef {{ target: number, source: number, share: number }} Link  between words
 * @typedef {{ x: number, width: number, middle: number }} Slot
 * @typedef {Link & { from: [number, number], to: [number, number] }} Ribbon  its edges above and below
 */

const LEFT = 64,
  RIGHT = 8,
  AIR = 14, // around a lying label, in all
  UPRIGHT = 16, // the narrowest slot whose label can be read, standing
  LARGEST = 96, // pixels for a share of one
  LEAST = 10,
  LONGEST = 110; // pixels of a standing label

/**
 * What every word of the answer has from every word of the source: pieces of a source word are added, those of the
 * answer's word averaged, where they were measured.
 * @param {ArrayLike<number>} values  targets by sources @param {number} width @param {Word[]} targets
 * @param {Word[]} sources @returns {Link[]}
 */
export function linked(values, width, targets, sources) {
  return targets.flatMap(([above, behind], target) =>
    sources.map(([first, end], source) => {
      const rows = [];
      for (let token = above; token < behind; token++) {
        let row = 0;
        for (let place = first; place < end; place++) row += values[token * width + place];
        if (Number.isFinite(row)) rows.push(row);
      }
      return { target, source, share: rows.length ? sum(rows, 0, rows.length) / rows.length : NaN };
    }),
  );
}

/**
 * The largest of these that have so much of them all, or so many at most, and how much they have.
 * @param {Link[]} links @param {number} keep @param {number} [most]
 */
export function carrying(links, keep, most = Infinity) {
  const order = links.filter(({ share }) => share > 0).sort((one, other) => other.share - one.share),
    total = order.reduce((so, { share }) => so + share, 0);
  let carried = 0,
    count = 0;
  while (count < Math.min(order.length, most) && carried < keep * total - 1e-9) carried += order[count++].share;
  return { kept: order.slice(0, count), share: total ? carried / total : 1 };
}

/**
 * Where words and ribbons lie. A word is as wide as its label and its ribbons; where labels have no room they stand.
 * @param {number[]} above  widths of the source's labels @param {number[]} below  of the answer's
 * @param {Link[]} links @param {number} room
 */
export function betweenLayout(above, below, links, room) {
  const inner = room - LEFT - RIGHT,
    totals = [totalsOf(links, "source", above.length), totalsOf(links, "target", below.length)],
    whole = totals[0].reduce((so, share) => so + share, 0) || 1,
    airOf = (/** @type {number[]} */ widths, /** @type {boolean} */ lying) =>
      widths.map((width) => (lying ? width + AIR : UPRIGHT)),
    lying = [above, below].every((widths) => sum(airOf(widths, true), 0, widths.length) <= inner * 0.75),
    airs = [above, below].map((widths) => airOf(widths, lying)),
    most = Math.max(...airs.map((air) => sum(air, 0, air.length))),
    unit = Math.max(Math.min((inner - most) / whole, LARGEST), LEAST),
    wide = Math.max(...airs.map((air) => sum(air, 0, air.length))) + unit * whole,
    high = lying ? 24 : Math.min(Math.max(...above, ...below), LONGEST) + 12,
    [top, tall] = [high + 12, 190];
  const [sources, targets] = airs.map((air, row) => slots(air, totals[row], unit, wide));
  return {
    ...{ lying, unit, sources, targets, top, left: LEFT, bottom: top + tall },
    width: Math.ceil(LEFT + wide + RIGHT),
    height: Math.ceil(top + tall + high + (lying ? 30 : 14)),
    /** Row 1 is the source, row 0 the answer. @param {number} x @param {number} y */
    find: (x, y) => {
      const row = y < top + tall / 2 ? 1 : 0,
        column = [targets, sources][row].findIndex((slot) => x >= slot.x && x < slot.x + slot.width);
      return column < 0 ? null : { row, column };
    },
  };
}

/** @param {Link[]} links @param {"source" | "target"} end @param {number} count */
function totalsOf(links, end, count) {
  const totals = Array.from({ length: count }, () => 0);
  for (const link of links) totals[link[end]] += link.share;
  return totals;
}

/** Slots side by side, in the middle. @returns {Slot[]} */
function slots(air, totals, unit, wide) {
  const widths = air.map((space, place) => space + unit * totals[place]);
  let x = LEFT + (wide - sum(widths, 0, widths.length)) / 2;
  return widths.map((width) => {
    const slot = { x, width, middle: x + width / 2 };
    x += width;
    return slot;
  });
}

/**
 * Every ribbon where it lies in the bars of its two words: in the order of the words at its other end.
 * @param {Link[]} links @param {ReturnType<typeof betweenLayout>} at @returns {Ribbon[]}
 */
export function ribbonsBetween(links, { sources, targets, unit }) {
  const edges = (end, other, all) => {
    const begin = all.map(({ middle }, place) => middle - (unit * totalsOf(links, end, all.length)[place]) / 2);
    return new Map(
      links
        .toSorted((one, two) => one[other] - two[other])
        .map((link) => {
          const left = begin[link[end]],
            right = (begin[link[end]] += unit * link.share);
          return [link, /** @type {[number, number]} */ ([left, right])];
        }),
    );
  };
  const [from, to] = [edges("source", "target", sources), edges("target", "source", targets)];
  return links.map((link) => ({ ...link, from: from.get(link), to: to.get(link) }));
}

/** The outline of a ribbon. @param {Ribbon} ribbon @param {number} top @param {number} bottom */
export function outline({ from: [left, right], to: [one, other] }, top, bottom) {
  const middle = (top + bottom) / 2,
    point = (/** @type {number[]} */ ...numbers) => numbers.map((value) => value.toFixed(1)).join(" ");
  return (
    `M${point(left, top)}C${point(left, middle, one, middle, one, bottom)}L${point(other, bottom)}` +
    `C${point(other, middle, right, middle, right, top)}Z`
  );
}
