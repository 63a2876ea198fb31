// @ts-check
// Alignment: the words of a source above, those of its answer below, ribbons between them as wide as the shares.

import { betweenLayout, carrying, linked, outline, ribbonsBetween } from "../core/between.js";
import { apart, border, called, cut, lacking, listed, map, perHead as byHead, title, wording } from "../core/data.js";
import { MONO, SANS, fitted, h, once, select, slider, svg, textWidth } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { roomIn } from "../core/grid.js";
import { percent } from "../core/scale.js";
import { chosen } from "../core/state.js";
import { walkable } from "../core/walk.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {import("../core/state.js").State} State
 * @typedef {import("../core/between.js").Word} Word
 * @typedef {import("../core/between.js").Link} Link
 * @typedef {{ sources: Word[], targets: Word[], all: Link[], kept: Link[], share: number, here: number,
 *   name: string }} Picture  `here` is the chosen word of the answer
 */

const USUAL = 0.9, // of all shares: what carries it is drawn
  FULL = 400, // ribbons
  LETTER = 13,
  BAR = 7,
  LONGEST = 110, // pixels of a standing label
  NAMED = 3;
const HEADER = ["map", "layer", "target", "target_word", "source", "source_word", "share"];

export function perHead(data, state) {
  return byHead(data, chosen(state.map, options(data)));
}

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, data, "alignment"),
    name = chosen(state.map, options(data)),
    picture = composed(data, state, name);
  select(choices, "map", "By", options(data), name, (value) => state.set({ map: value }));
  slider(choices, "keep", "Share shown", picture.share, percent, (value) => state.set({ keep: value }));
  say(lacking(data, name, state.layer) || finding(data, picture, state), subtitle(data, picture, state));
  const room = roomIn(body),
    parts = once(body, () => frame(body));
  show(parts, data, picture, state, palette, room);
  held.pictures = (colors) => [drawn(data, picture, colors, room).whole];
  held.table = () => table(data, picture, state);
}

/** @param {Data} data @returns {string[][]} */
function options(data) {
  return data.alignment.maps.map((name) => [name, title(data, name)]);
}

/** @param {Data} data @param {State} state @returns {Picture} */
function composed(data, state, name) {
  const { words } = data.alignment,
    from = border(data),
    known = ([first, end]) => !data.rows || data.rows.some((row) => row >= first && row < end),
    sources = words.filter(([, end]) => end <= from),
    targets = words.filter((word) => word[0] >= from && known(word)),
    head = byHead(data, name) ? state.head : "mean",
    all = linked(map(data, name, state.layer, head), data.tokens.length, targets, sources),
    { kept, share } = carrying(all, state.keep === "" ? USUAL : state.keep, FULL);
  const here = Math.max(wordOf(targets, state.token), 0);
  return { sources, targets, all, kept, share, here, name };
}

/** @param {Word[]} words @param {number} token */
function wordOf(words, token) {
  return words.findIndex(([first, end]) => token >= first && token < end);
}

/** A word as it is told. @param {Data} data @param {Word} word */
function said(data, [first]) {
  const { word } = data.tokens[first];
  return word ? `\u2068${cut(word, 40)}\u2069` : called(data, first);
}

/** @param {Data} data @param {Picture} picture @param {State} state */
function finding(data, { all, sources, targets, here, name }, { layer }) {
  const { when, verb, to } = wording(data, name),
    best = strongest(all, "target", here).slice(0, NAMED),
    words = best.map(({ source }) => sources[source]),
    names = apart(
      words.map((word) => said(data, word)),
      words.map(([first]) => first),
    ),
    parts = best.map(({ share }, at) => `${percent(share)} ${to} ${names[at]}`);
  return `${when} layer ${data.layers[layer]}, “${said(data, targets[here])}” ${verb} ${listed(parts)}`;
}

/** The links of a word, the largest first. @param {Link[]} links @param {"source" | "target"} end */
function strongest(links, end, place) {
  return links
    .filter((link) => link[end] === place && link.share >= 0.005)
    .sort((one, other) => other.share - one.share);
}

/** @param {Data} data @param {Picture} picture @param {State} state */
function subtitle(data, { name, share, kept, all }, { head }) {
  const heads = !byHead(data, name) ? "" : head === "mean" ? `, mean of ${data.heads} heads` : `, head ${head}`,
    [some, whole] = [kept.length, all.length].map((count) => count.toLocaleString("en")),
    { verb, to } = wording(data, name);
  return [
    `Ribbons by ${title(data, name)}${heads}; width: how much a word of the answer ${verb} ${to} a word of the source.`,
    "Pieces of a source word are added, those of the answer’s word averaged.",
    "What stands at a word is its state, from which the next one is predicted.",
    `${some} of ${whole} ribbons are drawn, with ${percent(share)} of all between the two texts.`,
    data.styles[name].meaning,
  ].join(" ");
}

/** What is told of a word. @param {Data} data @param {Picture} picture @param {import("../core/walk.js").Cell} cell */
function describe(data, { all, sources, targets, name }, { row, column }) {
  const [end, other, words, others] = row
    ? /** @type {const} */ (["source", "target", sources, targets])
    : /** @type {const} */ (["target", "source", targets, sources]);
  const links = strongest(all, end, column).slice(0, 5),
    total = all.reduce((so, link) => so + (link[end] === column ? link.share || 0 : 0), 0),
    { title: text } = data.texts[row ? 0 : 1],
    { to } = wording(data, name),
    lines = links.map((link) => `${percent(link.share)} ${row ? "of" : to} ${said(data, others[link[other]])}`);
  const together = row ? [] : [`${percent(total)} ${to} the source in all`];
  return [`${text}: ${said(data, words[column])}`, ...lines, ...together].join("\n");
}

/** @param {HTMLElement} body */
function frame(body) {
  const look = { class: "grid", tabindex: "0", role: "application", "aria-roledescription": "alignment" },
    element = h("div", look);
  body.append(h("div", { class: "scroll" }, element));
  return element;
}

/** @param {HTMLElement} element @param {Data} data @param {Picture} picture @param {State} state */
function show(element, data, picture, state, palette, room) {
  const { whole, at, light } = drawn(data, picture, palette, room),
    tell = (cell) => describe(data, picture, cell),
    { targets, sources, here } = picture,
    chosenWord = { row: 0, column: here };
  element.replaceChildren(whole);
  for (const { style } of [element, whole]) style.maxWidth = "none"; // a long text scrolls and is not shrunk
  light(chosenWord);
  element.setAttribute("aria-label", `Words of the answer. Arrow keys move. ${tell(chosenWord)}`);
  walkable(element, {
    at,
    describe: tell,
    hover: (cell) => light(cell ?? chosenWord),
    pick: ({ row, column }) =>
      state.set(row ? { source: sources[column][0] } : { token: targets[column][0], source: targets[column][0] }),
    keys: {
      ...{ here: { row: state.layer, column: here }, rows: data.layers.length, columns: targets.length },
      go: ({ row, column }) => state.set({ layer: row, token: targets[column][0], source: targets[column][0] }),
      say: ({ row, column }) => `${tell({ row: 0, column })}\nlayer ${data.layers[row]}`,
    },
  });
}

/**
 * The picture, where everything is in it, and a way to light the ribbons of one word.
 * @param {Data} data @param {Picture} picture
 */
function drawn(data, { sources, targets, kept, all, here }, palette, room) {
  const named = (words) => words.map((word) => data.tokens[word[0]].word || data.tokens[word[0]].shown),
    wide = (text) => Math.min(textWidth(text, LETTER), LONGEST),
    [above, below] = [named(sources), named(targets)],
    at = betweenLayout(above.map(wide), below.map(wide), kept, room),
    ribbons = ribbonsBetween(kept, at);
  const whole = svg("svg", {
    ...{ width: at.width, height: at.height, viewBox: `0 0 ${at.width} ${at.height}`, "aria-hidden": "true" },
    ...{ "font-family": SANS, "data-title": "" },
  });
  const paths = ribbons.map((ribbon) =>
    svg("path", { d: outline(ribbon, at.top, at.bottom), fill: palette.source, "fill-opacity": 0.3 }),
  );
  const bars = ribbons.flatMap(({ from, to }) => [bar(from, at.top - BAR, palette), bar(to, at.bottom, palette)]);
  whole.append(svg("g", { class: "between" }, ...paths), svg("g", {}, ...bars));
  whole.append(labels(data, sources, above, at.sources, { at, palette, down: false, bold: -1 }));
  whole.append(labels(data, targets, below, at.targets, { at, palette, down: true, bold: here }));
  if (at.lying) whole.append(totals(all, at, palette));
  const side = { x: 0, "font-size": 12, fill: palette.muted };
  for (const [row, y] of [at.top, at.bottom + BAR].entries())
    whole.append(svg("text", { ...side, y }, data.texts[row].title));
  const light = ({ row, column }) => {
    for (const [place, path] of paths.entries()) {
      const lit = ribbons[place][row ? "source" : "target"] === column;
      path.setAttribute("fill-opacity", lit ? "0.8" : "0.22");
    }
  };
  light({ row: 0, column: here });
  return { whole, at, light };
}

/** @param {[number, number]} edges @param {number} y */
function bar([left, right], y, palette) {
  return svg("rect", { x: left, y, width: Math.max(right - left, 0.5), height: BAR, fill: palette.source });
}

/**
 * A row of words.
 * @param {Data} data @param {Word[]} words @param {string[]} names @param {import("../core/between.js").Slot[]} slots
 */
function labels(data, words, names, slots, { at, palette, down, bold }) {
  const group = svg("g", { "font-size": LETTER, "font-family": MONO }),
    y = down ? at.bottom + BAR + (at.lying ? 17 : 6) : at.top - BAR - (at.lying ? 7 : 6);
  for (const [place, { middle }] of slots.entries()) {
    const { special } = data.tokens[words[place][0]],
      look = { fill: special ? palette.special : palette.ink, "font-style": special ? "italic" : null };
    const where = at.lying
      ? { x: middle, y, "text-anchor": "middle" }
      : { transform: `translate(${middle + 4} ${y}) rotate(-90)`, "text-anchor": down ? "end" : "start" };
    const weight = place === bold ? 700 : null;
    group.append(svg("text", { ...where, ...look, "font-weight": weight }, fitted(names[place], LONGEST, LETTER)));
  }
  return group;
}

/** How much of every word comes from the source. @param {Link[]} all */
function totals(all, { targets, bottom }, palette) {
  const group = svg("g", { "font-size": 11, "text-anchor": "middle", fill: palette.muted });
  for (const [place, { middle }] of targets.entries()) {
    const total = all.reduce((so, { target, share }) => so + (target === place ? share || 0 : 0), 0);
    group.append(svg("text", { x: middle, y: bottom + BAR + 34 }, percent(total)));
  }
  return group;
}

/** @param {Data} data @param {Picture} picture @param {State} state */
function table(data, { all, sources, targets, name }, { layer }) {
  const word = (/** @type {Word} */ [first]) => [first, data.tokens[first].word || data.tokens[first].text],
    rows = all.map(({ target, source, share }) => [
      ...[name, data.layers[layer], ...word(targets[target]), ...word(sources[source])],
      share,
    ]);
  return { header: HEADER, rows };
}
