// @ts-check
// The first picture, in numbers: which parts a prediction is made of, how long each is drawn, and how it gets there.

/**
 * @typedef {"source" | "own" | "against" | "sink" | "constant"} Kind
 * @typedef {{ place: number, value: number, kind: Kind }} Part  `place` is that of a token, -1 for none
 * @typedef {Part & { x: number, width: number }} Segment  a part where it lies in the bar
 * @typedef {{ x: number, y: number, width: number, height: number }} Box
 * @typedef {{ at: Segment, text: string, x: number, width: number }} Label
 */

const BETWEEN = 22, // what is for it and what is against it stand apart
  SINK = { share: 0.12, most: 96 }, // a sink is as wide as its name, not as its value
  NAMED = 0.045, // of the bar: what is shorter goes without its name
  THIN = 1.5; // pixels: a narrower ribbon is not seen

/**
 * The parts in the order in which they are drawn: what is for it as it is read, the constants, what is against it.
 * @param {ArrayLike<number>} row @param {{ own: number, sink: number, constant: number }} about @returns {Part[]}
 */
export function partsOf(row, { own, sink, constant }) {
  /** @type {Part[]} */
  const parts = Array.from(row, (value, place) => ({ place, value, kind: kindOf(value, place, own, sink) }));
  parts.push({ place: -1, value: constant, kind: constant < 0 ? "against" : "constant" });
  const order = { sink: 0, source: 1, own: 1, constant: 2, against: 3 };
  return parts
    .filter(({ value }) => Number.isFinite(value) && value !== 0)
    .sort((one, other) => order[one.kind] - order[other.kind]);
}

/** @returns {Kind} */
function kindOf(value, place, own, sink) {
  if (place === sink) return "sink";
  if (value < 0) return "against";
  return place === own ? "own" : "source";
}

/**
 * The parts side by side in a bar of this length, as long as they are large; the sink as long as its name.
 * @param {Part[]} parts @param {number} length @returns {Segment[]}
 */
export function segmentsOf(parts, length) {
  const scaled = parts.filter(({ kind }) => kind !== "sink"),
    whole = scaled.reduce((sum, { value }) => sum + Math.abs(value), 0),
    sink = parts.length > scaled.length ? Math.min(length * SINK.share, SINK.most) : 0,
    opposed = scaled.some(({ kind }) => kind === "against"),
    between = opposed && scaled.some(({ kind }) => kind !== "against") ? BETWEEN : 0,
    unit = (length - sink - between) / (whole || 1);
  let x = 0,
    last = "";
  return parts.map((part) => {
    if (part.kind === "against" && last !== "against" && last) x += between;
    last = part.kind;
    const width = part.kind === "sink" ? sink : Math.abs(part.value) * unit,
      found = { ...part, x, width };
    x += width;
    return found;
  });
}

/**
 * The names of the largest parts, as far as there is room above the bar.
 * @param {Segment[]} segments @param {number} length @param {(segment: Segment) => string} name
 * @param {(text: string) => number} widthOf @param {number} most @returns {Label[]}
 */
export function labelsOf(segments, length, name, widthOf, most) {
  /** @type {Label[]} */
  const labels = [];
  const order = segments.toSorted((one, other) => other.width - one.width);
  for (const at of order) {
    if (labels.length === most || at.width < length * NAMED) break;
    const text = name(at),
      width = widthOf(text),
      x = Math.min(Math.max(at.x + at.width / 2 - width / 2, 0), length - width);
    const free = labels.every((other) => x > other.x + other.width + 10 || x + width + 10 < other.x);
    if (free && width <= length) labels.push({ at, text, x, width });
  }
  return labels;
}

/**
 * The outline of a ribbon from a segment, whose lower edge is at `from`, down to its token; past lines of text above
 * that of the token, which begin at `lines`, it falls straight.
 * @param {Segment} segment @param {Box} box @param {number} from @param {number} lines
 */
export function ribbonOf({ x, width }, box, from, lines) {
  const wide = Math.min(box.width, Math.max(width, 2)),
    left = box.x + (box.width - wide) / 2,
    right = left + wide,
    to = Math.min(lines, box.y),
    middle = (from + to) / 2,
    round = (value) => Math.round(value * 10) / 10;
  const path = [
    `M${round(x)} ${from}C${round(x)} ${round(middle)} ${round(left)} ${round(middle)} ${round(left)} ${round(to)}`,
    `V${round(box.y)}H${round(right)}V${round(to)}`,
    `C${round(right)} ${round(middle)} ${round(x + width)} ${round(middle)} ${round(x + width)} ${from}Z`,
  ];
  return width < THIN ? "" : path.join("");
}

/**
 * Which tokens of a long text are shown: those that matter most with their neighbours, and the last ones.
 * @param {ArrayLike<number>} row @param {number[]} kept  places that are always shown
 * @param {{ most: number, around: number }} room
 * @returns {boolean[]}
 */
export function excerptOf(row, kept, { most, around }) {
  const shown = Array.from(row, () => false),
    order = [...shown.keys()].sort((one, other) => Math.abs(row[other] || 0) - Math.abs(row[one] || 0));
  let count = 0;
  for (const place of [...kept, ...order]) {
    const first = Math.max(place - around, 0),
      last = Math.min(place + around, shown.length - 1);
    for (let at = first; at <= last; at++)
      if (!shown[at] && count < most) {
        shown[at] = true;
        count += 1;
      }
    if (count >= most) break;
  }
  return shown;
}
