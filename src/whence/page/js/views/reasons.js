// @ts-check
// Below the text: the strongest spans, the best tokens, where in depth the prediction fell, and which heads gave what.

import { said } from "../core/data.js";
import { h, once } from "../core/dom.js";
import { bySpan, decimal, layerName, quoted } from "../core/explained.js";
import { figure } from "../core/figure.js";
import { drawing, grid, roomIn } from "../core/grid.js";
import { limit, percent, scale } from "../core/scale.js";
import { bars, depth, layerAt } from "./spans.js";

/**
 * @typedef {import("../core/explained.js").Explained} Explained
 * @typedef {import("../core/explained.js").Chosen} Chosen
 * @typedef {import("../core/explained.js").Span} Span
 * @typedef {import("../core/scale.js").Palette} Palette
 */

const MOST = 12, // bars
  ROOMY = { rows: 16, wide: 48 }; // a heat map with numbers in its cells

/**
 * @param {HTMLElement} container @param {Explained} data @param {(layer: number) => void} go  to a layer
 * @param {Chosen} chosen @param {Palette} palette
 */
export function render(container, data, go, chosen, palette) {
  const { held, say, body } = figure(container, /** @type {any} */ (data), "why"),
    { words } = data,
    { one, layer, shade } = chosen,
    spans = bySpan(data, chosen);
  const panes = once(body, () => paned(body, data));
  say(said(shade.most, { token: quoted(one.token), layer: layerName(data, layer) }), subtitle(data, chosen, spans), {
    name: "spans",
    table: () => ({
      header: ["predicted", "predicted_token", "layer", "span", shade.name],
      rows: spans.map(({ name, value }) => [one.position, one.token, data.layers[layer], name, value]),
    }),
  });
  const drawn = {
    spans: (colors) => bars(listed(data, chosen, spans), roomIn(panes.spans, 280), colors, shade.title),
    best: (colors) => bars(best(one), roomIn(panes.best, 240), colors, words.alternatives),
    depth: (colors) => depth(one.depth, data.layers, layer, roomIn(panes.depth, 240), colors, panes.depthTitle(one)),
  };
  const there = { spans: true, best: one.alternatives.length > 0, depth: one.depth !== null };
  for (const name of Object.keys(drawn)) {
    panes[name].parentElement.hidden = !there[name];
    if (there[name]) panes[name].replaceChildren(drawn[name](palette));
  }
  panes.depth.previousElementSibling.textContent = panes.depthTitle(one);
  panes.depth.onclick = (event) => {
    const box = panes.depth.firstElementChild.getBoundingClientRect();
    go(layerAt((event.clientX - box.left) / box.width, box.width, data.layers.length));
  };
  const heats = data.heat ? heat(panes.heat, data, chosen, palette) : () => [];
  const shown = Object.keys(drawn).filter((name) => there[name]);
  held.pictures = (colors) => [...shown.map((name) => drawn[name](colors)), ...heats(colors)];
  held.table = () => table(data, chosen);
}

/** @param {HTMLElement} body @param {Explained} data */
function paned(body, data) {
  const { words } = data;
  const pane = (kind, title = "") => {
    const inner = h("div", { class: "drawn" });
    body.append(h("div", { class: kind }, ...(title === null ? [] : [h("h3", {}, title)]), inner));
    return inner;
  };
  const side = h("div", { class: "side" }),
    spans = pane("main", null),
    [best, deep] = [h("div", { class: "drawn" }), h("div", { class: "drawn pick" })];
  body.append(side);
  side.append(h("div", {}, h("h3", {}, words.alternatives), best), h("div", {}, h("h3", {}), deep));
  const heatPane = data.heat ? pane("one", words.heat) : null;
  const depthTitle = ({ at, settled }) =>
    said(words.depth, { at: quoted(at) }) + (settled === null ? "" : `; ${said(words.settled, { layer: settled })}`);
  return { spans, best, depth: deep, heat: heatPane, depthTitle };
}

/** @param {Explained} data @param {Chosen} chosen @param {Span[]} spans */
function subtitle({ words }, { shade }, spans) {
  const told = spans.some(({ share }) => share !== null) ? words.percent : "",
    more = spans.length > MOST ? said(words.more, { count: spans.length - MOST }) : "";
  return [shade.meaning, told, more].filter(Boolean).join(" ");
}

/**
 * The bars of the strongest spans, and of the constants.
 * @param {Explained} data @param {Chosen} chosen @param {Span[]} spans
 */
function listed({ words, shades }, { one, layer, shade, format }, spans) {
  const found = spans.slice(0, MOST).map((span) => ({
    ...{ name: span.name, value: span.value, text: format(span.value), note: span.sink ? "sink" : "" },
    share: span.share === null ? "" : percent(span.share),
  }));
  const constant = shade === shades[0] && shade.by === "sum" ? one.bias[layer] : 0;
  return Math.abs(constant) >= 0.005
    ? [...found, { name: words.constants, value: constant, text: format(constant), note: "" }]
    : found;
}

/** @param {import("../core/explained.js").Predicted} one */
function best({ alternatives }) {
  return alternatives.map(([name, value]) => ({ name, value, text: percent(value) }));
}

/**
 * Blocks by components, the last block on top.
 * @param {HTMLElement} container @param {Explained} data @param {Chosen} chosen @param {Palette} palette
 */
function heat(container, data, { at }, palette) {
  const { blocks, components, values } = data.heat,
    rows = values[at],
    depthwise = (row) => blocks.length - 1 - row,
    numbers = Float32Array.from(rows.flat()),
    end = limit(numbers),
    roomy = blocks.length <= ROOMY.rows && roomIn(container) / components.length >= ROOMY.wide,
    cell = once(container.parentElement, () => ({ row: 0, column: 0 }));
  const spec = (colors) => ({
    ...{ name: data.words.heat, heading: data.words.heat, corner: "layer", wide: 64, numbers: roomy },
    tall: roomy ? 24 : 15,
    labels: /** @type {"bottom"} */ ("bottom"),
    rows: blocks.map((block) => ({ text: String(block) })).reverse(),
    columns: components.map((text) => ({ text })),
    value: (row, column) => rows[depthwise(row)][column],
    ...{ scale: scale(colors, end, true), format: decimal, brief: decimal, selected: { ...cell } },
    beyond: numbers.some((value) => Math.abs(value) > end),
    describe: (row, column) =>
      `layer ${blocks[depthwise(row)]}, ${components[column]}\n${decimal(rows[depthwise(row)][column])}`,
    select: (found) => {
      Object.assign(cell, found);
      grid(container, spec(palette), palette);
    },
  });
  grid(container, spec(palette), palette);
  return (colors) => [drawing(container, spec(colors), colors)];
}

/** Every number that is shaded, by layer and source. @param {Explained} data @param {Chosen} chosen */
function table(data, { at, one, shade }) {
  const { values, shape } = data.variables[shade.name],
    [, layers, sources] = shape;
  const line = (layer, source) => [
    ...[one.position, one.token, data.layers[layer], source, data.tokens[source].text],
    values[(at * layers + layer) * sources + source],
  ];
  return {
    header: ["predicted", "predicted_token", "layer", "source", "source_token", shade.name],
    rows: Array.from({ length: layers * sources }, (_, place) => line(Math.floor(place / sources), place % sources)),
  };
}
