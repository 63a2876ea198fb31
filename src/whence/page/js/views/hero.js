// @ts-check
// The first picture: what is predicted, the parts it is made of, and the sentence they come from.

import { SANS, announce, h, hush, once, svg, tell, textWidth } from "../core/dom.js";
import { quoted } from "../core/explained.js";
import { inkOn, scale } from "../core/scale.js";
import { placed } from "../core/patches.js";
import { excerptOf, labelsOf, ribbonOf, segmentsOf } from "../core/story.js";
import { explained } from "../core/terms.js";
import { roving } from "../core/walk.js";
import * as scene from "./scene.js";

/**
 * @typedef {import("../core/scale.js").Palette} Palette
 * @typedef {import("../core/story.js").Part} Part
 * @typedef {import("../core/story.js").Segment} Segment
 * @typedef {{ text: string, shown: string, read: string, special: boolean, gap: boolean, line: boolean }} Word
 * @typedef {object} Story  what the first picture tells
 * @property {string} id  another one begins with it
 * @property {string} title
 * @property {string[]} strong  pieces of the title that stand out
 * @property {string} because
 * @property {string} made  what the bar is of, for those who cannot see it
 * @property {Word[]} words
 * @property {{ title: string, first: number }[]} texts  of which they are, where they are of two
 * @property {Part[]} parts
 * @property {number} own  the place of the token that it is about
 * @property {Set<number>} predicted  places that can be chosen as predictions
 * @property {string} ghost  what is predicted behind the last word
 * @property {number} chosen  the chosen token
 * @property {number} end  of the scale of the shade
 * @property {(value: number) => string} format
 * @property {[import("../core/story.js").Kind, string][]} legend
 * @property {string} constants
 * @property {string} first  what a sink is called
 * @property {string} sure
 * @property {Record<string, string>} terms
 * @property {import("../core/patches.js").Scene | null} [scene]  what some of the words are drawn in
 */

const BAR = { top: 20, high: 24, ribbons: 62, name: 13 },
  LONG = 64, // words: more are folded
  FOLDED = { most: 44, around: 2 },
  LABELS = 6,
  VISIBLE = 0.03; // of the scale: what is smaller is not hatched

/**
 * @param {HTMLElement} container @param {Story} story @param {Palette} palette @param {(place: number) => void} choose
 * @param {"h1" | "h3"} [level]  of the title
 */
export function render(container, story, palette, choose, level = "h1") {
  const parts = once(container, () => build(level));
  if (container.firstElementChild !== parts.title) container.append(...parts.whole);
  parts.title.replaceChildren(...emphasised(story.title, story.strong));
  if (parts.told !== story.because) parts.because.replaceChildren(...explained(story.because, story.terms));
  parts.told = story.because;
  parts.because.hidden = !story.because;
  Object.assign(parts, { now: story, choose, again: () => render(container, story, palette, choose, level) });
  words(parts, story);
  press(parts, story);
  const drawn = look(parts, story, palette, container.clientWidth);
  if (parts.drawn === drawn) return; // of a long text every word is a thousandth of the work
  parts.drawn = drawn;
  shade(parts, story, palette);
  legend(parts, story);
  parts.scene.hidden = !story.scene;
  parts.story.hidden = !story.words.length;
  parts.picture.hidden = Boolean(story.scene);
  parts.story.classList.toggle("drawn", Boolean(story.scene));
  if (story.scene) scene.render(parts.scene, story.scene, overScene(story, choose), palette);
  else draw(parts, story, palette);
}

/** The chosen word. @param {ReturnType<typeof build>} parts @param {Story} story */
function press(parts, { chosen }) {
  const { chips, shown } = parts;
  chips[parts.pressed]?.setAttribute("aria-pressed", "false");
  chips[chosen]?.setAttribute("aria-pressed", "true");
  parts.pressed = chosen;
  roving(parts.row, shown, Math.max(shown.indexOf(chips[chosen]), 0), (at) => parts.choose(chips.indexOf(shown[at])));
}

/** All that the picture depends on. @param {ReturnType<typeof build>} parts @param {Story} story */
function look({ shown, row }, { id, parts, own, predicted, end, legend, sure, scene, chosen }, { paper }, width) {
  const words = [id, row.dataset.known, shown.length, own, [...predicted], end, legend, sure];
  return JSON.stringify([words, parts, paper, width, scene ? [scene, chosen] : null]);
}

/** @param {Story} story @param {(place: number) => void} choose @returns {import("./scene.js").Shown} */
function overScene(story, choose) {
  const row = new Float64Array(story.words.length);
  for (const { place, value } of story.parts) if (place >= 0) row[place] = value;
  const signed = row.some((value) => value < 0);
  return { row, end: story.end, signed, chosen: story.chosen, describe: (place) => told(story, place), choose };
}

/** The title with what matters in it set large. @param {string} title @param {string[]} strong */
function emphasised(title, strong) {
  const pieces = [];
  let rest = title;
  for (const piece of strong) {
    const at = piece ? rest.indexOf(piece) : -1;
    if (at < 0) continue;
    pieces.push(rest.slice(0, at), h("strong", {}, piece));
    rest = rest.slice(at + piece.length);
  }
  return [...pieces, rest];
}

/** @param {"h1" | "h3"} level */
function build(level) {
  const [title, because] = [h(level, { class: "title" }), h("p", { class: "because" })],
    picture = h("div", { class: "ribbons" }),
    drawn = h("div", {}),
    row = h("div", { class: "sentence", role: "toolbar", "aria-label": "The sentence, token by token" }),
    story = h("div", { class: "story" }, picture, drawn, row),
    [keys, sure] = [h("span", { class: "keys" }), h("span", { class: "sure" })],
    key = h("p", { class: "key" }, keys, sure);
  /** @type {HTMLElement[]} */
  const chips = [];
  return {
    whole: [title, because, story, key],
    title,
    because,
    picture,
    story,
    scene: drawn,
    row,
    keys,
    sure,
    chips,
    shown: chips,
    id: "",
    told: "",
    drawn: "",
    pressed: -1,
    /** @type {Story} */
    now: null,
    choose: /** @type {(place: number) => void} */ (() => {}),
    again: () => {},
  };
}

/** The words, made anew for another text. @param {ReturnType<typeof build>} parts @param {Story} story */
function words(parts, { id, words, texts, ghost, parts: all, own, chosen, predicted, scene: drawn }) {
  const known = JSON.stringify([words.map(({ text }) => text), ghost, all.length > 0]); // what matters unfolds a text
  parts.title.parentElement.classList.toggle("fresh", parts.id !== id);
  parts.id = id;
  if (parts.row.dataset.known === known) return;
  parts.row.dataset.known = known;
  parts.row.dataset.size = words.length > 36 ? "small" : words.length > 16 ? "middle" : "large";
  parts.chips = words.map(({ shown, read, special }, place) => {
    const tells = (event) => tell(event, told(parts.now, place)),
      hears = { onclick: () => parts.choose(place), onpointermove: tells, onpointerleave: hush };
    const name = { class: `token${special ? " special" : ""}`, "aria-label": `token ${place}, ${shown}` },
      look = { type: "button", dir: "auto", "aria-pressed": "false", onfocus: () => announce(told(parts.now, place)) };
    return h("button", { ...name, ...look, ...hears }, read);
  });
  if (drawn) return beside(parts, placed(drawn, words.length), ghost);
  const row = new Float64Array(words.length);
  for (const { place, value } of all) if (place >= 0) row[place] = value;
  const unfolded = () => {
    fill(parts, words, texts, ghost, null);
    parts.again();
  };
  const wanted = [own, ...predicted, chosen].filter((place) => place >= 0);
  fill(parts, words, texts, ghost, words.length > LONG ? excerptOf(row, wanted, FOLDED) : null, unfolded);
}

/** The words that are not drawn in the scene. @param {ReturnType<typeof build>} parts @param {boolean[]} drawn */
function beside(parts, drawn, ghost) {
  parts.shown = parts.chips.filter((_, place) => !drawn[place]);
  parts.row.replaceChildren(...parts.shown);
  if (ghost) parts.row.append(h("span", { class: "ghost", dir: "auto" }, `→ ${ghost}`));
}

/**
 * The words in their row; of a folded text some, and a button for each run of others.
 * @param {ReturnType<typeof build>} parts @param {Word[]} words @param {Story["texts"]} texts @param {string} ghost
 * @param {boolean[] | null} excerpt @param {() => void} [unfold]
 */
function fill(parts, words, texts, ghost, excerpt, unfold) {
  parts.row.replaceChildren();
  parts.shown = parts.chips.filter((_, place) => excerpt?.[place] ?? true);
  let missing = 0;
  const rest = () => {
    if (missing)
      parts.row.append(
        h("button", { type: "button", class: "more", title: `${missing} more tokens`, onclick: unfold }, "…"),
      );
    missing = 0;
  };
  for (const [place, chip] of parts.chips.entries()) {
    const text = texts.find(({ first }) => first === place);
    if (text) {
      rest();
      parts.row.append(h("span", { class: "break" }), h("span", { class: "stack" }, text.title));
    }
    if (excerpt && !excerpt[place]) {
      missing += 1;
      continue;
    }
    rest();
    // it goes on with the word before
    chip.classList.toggle("on", place > 0 && !words[place].gap && !words[place].special);
    parts.row.append(chip);
    if (words[place].line) parts.row.append(h("span", { class: "break" }));
  }
  rest();
  if (ghost) parts.row.append(h("span", { class: "ghost", dir: "auto" }, `→ ${ghost}`));
}

/** @param {ReturnType<typeof build>} parts @param {Story} story @param {Palette} palette */
function shade({ chips }, { parts, end, own, predicted }, palette) {
  const amber = scale({ ...palette, sequential: [palette.paper, palette.own] }, end, false),
    signed = scale(palette, end, true),
    colors = { source: signed, own: amber, against: signed, constant: signed },
    /** @type {Map<number, Part>} */
    by = new Map(parts.map((part) => [part.place, part]));
  for (const [place, chip] of chips.entries()) {
    const part = by.get(place),
      color = part && part.kind !== "sink" ? colors[part.kind].rgb(part.value) : null;
    chip.style.backgroundColor = color ? `rgb(${color.join(" ")})` : "";
    chip.style.color = color ? inkOn(color) : "";
    chip.classList.toggle("sink", part?.kind === "sink");
    chip.classList.toggle("against", part?.kind === "against" && -part.value > VISIBLE * end);
    chip.classList.toggle("at", place === own);
    chip.classList.toggle("asked", predicted.has(place));
  }
}

/** @param {Story} story @param {number} place */
function told(story, place) {
  const part = story.parts.find((one) => one.place === place),
    name = `${quoted(story.words[place].shown)} (${place})`;
  return part ? `${name}: ${story.format(part.value)}${part.kind === "sink" ? `, ${story.first}` : ""}` : name;
}

/** @param {ReturnType<typeof build>} parts @param {Story} story */
function legend({ keys, sure }, { legend, parts, sure: words, terms }) {
  const there = legend.filter(([kind]) => parts.some((part) => part.kind === kind));
  keys.replaceChildren(
    ...there.map(([kind, text]) => h("span", { class: "kind" }, h("i", { class: `swatch ${kind}` }), text)),
  );
  if (sure.textContent !== words) sure.replaceChildren(...explained(words, terms));
}

/** What is drawn behind the words, from where they are. @param {ReturnType<typeof build>} parts @param {Story} story */
function draw(parts, story, palette) {
  const whole = parts.picture.parentElement.getBoundingClientRect(),
    drawn = picture(story, boxes(parts, whole), { width: whole.width, height: whole.height }, palette);
  parts.picture.replaceChildren(drawn);
}

/** Where the words are, by place. @param {ReturnType<typeof build>} parts @param {DOMRect} whole */
function boxes({ chips }, whole) {
  return chips.map((chip) => {
    const { x, y, width, height } = chip.getBoundingClientRect();
    return { x: x - whole.x, y: y - whole.y, width, height };
  });
}

/**
 * @param {Story} story @param {import("../core/story.js").Box[]} boxes @param {{ width: number, height: number }} size
 * @param {Palette} palette
 */
function picture(story, boxes, { width, height }, palette) {
  const segments = segmentsOf(story.parts, width),
    foot = BAR.top + BAR.high,
    lines = Math.min(...boxes.filter((box) => box.width).map(({ y }) => y)),
    hatch = `against-${palette.paper.slice(1)}`;
  const colors = { ...palette, sink: palette.muted, against: `url(#${hatch})` },
    fill = ({ kind }) => colors[kind];
  const ribbons = svg("g", { class: "rising", "fill-opacity": 0.34 }),
    bar = svg("g", {}),
    names = svg("g", { "font-size": BAR.name, fill: palette.ink });
  for (const segment of segments) {
    const box = boxes[segment.place];
    bar.append(
      svg(
        "rect",
        { x: segment.x, y: BAR.top, width: Math.max(segment.width - 1, 0.5), height: BAR.high, fill: fill(segment) },
        svg("title", {}, named(story, segment)),
      ),
    );
    if (box?.width) ribbons.append(svg("path", { d: ribbonOf(segment, box, foot, lines), fill: fill(segment) }));
  }
  const wide = (text) => textWidth(text, BAR.name, SANS);
  for (const { at, text, x } of labelsOf(segments, width, (one) => named(story, one), wide, LABELS)) {
    names.append(svg("text", { x, y: BAR.top - 6, "unicode-bidi": "isolate" }, text));
    if (at.kind === "sink") bar.append(broken(at, palette));
  }
  const about = `${story.made}: ${segments.map((one) => named(story, one)).join(", ")}`;
  return svg(
    "svg",
    {
      ...{ width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": about },
      ...{ "font-family": SANS, "data-title": "" },
    },
    svg("defs", {}, hatching(hatch, palette)),
    ribbons,
    bar,
    names,
  );
}

/** A sink is not drawn to scale: two strokes across it say so. @param {Segment} segment @param {Palette} palette */
function broken({ x, width }, palette) {
  const middle = x + width / 2,
    stroke = (at) => `M${at} ${BAR.top + BAR.high + 2}l6 ${-BAR.high - 4}`;
  return svg("path", { d: stroke(middle - 6) + stroke(middle), stroke: palette.paper, "stroke-width": 3 });
}

/** @param {Story} story @param {Segment} segment */
function named({ words, constants, first, format }, { place, value, kind }) {
  const name = kind === "sink" ? first : place < 0 ? constants : words[place].read;
  return `${name} ${format(value)}`;
}

function hatching(id, palette) {
  return svg(
    "pattern",
    { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 6, height: 6, fill: palette.against, "fill-opacity": 0.35 }),
    svg("rect", { width: 2.5, height: 6, fill: palette.against }),
  );
}
