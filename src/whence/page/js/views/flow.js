// @ts-check
// Flow: tokens are columns, layers rows, the input at the bottom; links show what rises from one layer to the next.

import { bundled, isBundle, single, sum } from "../core/bundle.js";
import {
  apart,
  called,
  error,
  errorsOf,
  estimated,
  largest,
  listed,
  part,
  shares,
  sinking,
  title,
} from "../core/data.js";
import { perHead as byHead, wording } from "../core/data.js";
import { MONO, SANS, fitted, h, hide, kept, once, select, slider, textWidth } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { roomIn } from "../core/grid.js";
import { columnsIn, flowLayout } from "../core/layout.js";
import { crowd, gathered, hasSink, network, passing, rowOf, strongest } from "./network.js";
import { highlights, marks, paint, vector } from "./river.js";
import { ABOVE, isWhole } from "./ribbons.js";
import { percent } from "../core/scale.js";
import { chosen } from "../core/state.js";
import { walkable } from "../core/walk.js";
import { sources } from "./whence.js";

/** @typedef {import("../core/data.js").Data} Data */
/** @typedef {import("./river.js").Picture} Picture */
/** @typedef {import("./river.js").At} At */

/** @type {string[][]} */
const MODES = [
  ["into", "into the chosen token"],
  ["all", "between all tokens"],
];
const WAITING = "The flow is drawn by it, because it is exact; cancel, and it is drawn by what is there.";
const HEADER = ["map", "from_layer", "source", "source_token", "to_layer", "target", "target_token"];
const USUAL = 0.9, // of the flow: what carries it is named, if there is room
  FEW = 32; // tokens that all have a column, where links go from layer to layer

export function perHead(data, state) {
  return byHead(data, chosen(state.flow, options(data)));
}

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body, leave } = figure(container, data, "flow");
  const awaited = state.flow ? null : state.live?.awaited("flow");
  choices.hidden = body.hidden = leave.hidden = Boolean(awaited);
  if (awaited) return say(`Measuring ${awaited}`, WAITING);
  const name = chosen(state.flow, options(data)),
    mode = chosen(state.links, MODES);
  select(choices, "flow", "By", options(data), name, (value) => state.set({ flow: value, keep: "" }));
  select(choices, "links", "Links", MODES, mode, (value) => state.set({ links: value, keep: "" }));
  const made = composed(data, state, palette, name, mode, roomIn(body));
  exactly(choices, state.live);
  slider(choices, "keep", "Share shown", made.share, percent, (value) => state.set({ keep: value }));
  say(finding(data, made.picture, name, state), subtitle(data, made, name, mode));

  const parts = once(body, () => ({ whole: frame(body), beside: body.appendChild(h("p", { class: "closer" })) }));
  show(parts.whole, made.picture, made.at, name);
  parts.beside.replaceChildren(...agreement(data, state, made.picture.net, name));
  held.pictures = (colors) => [vector({ ...made.picture, palette: colors }, made.at)];
  held.table = () => table(data, made.picture, made.at, name);
}

/** Offers what would be drawn of a shorter text. @param {HTMLElement} choices */
function exactly(choices, live) {
  const name = live?.longer("flow"),
    button = kept(choices, "longer", () => h("button", { type: "button", class: "better" }));
  hide(button, !name, choices);
  button.textContent = `Draw it by ${name}, which is exact`;
  button.onclick = () => live.measure(name);
}

/**
 * What is drawn, and where: the tokens that matter have columns of their own, the others are bundled; of links the
 * strongest.
 */
function composed(data, state, palette, name, mode, room) {
  const net = network(data, name, state, mode),
    plain = { net, data, state, palette, mode, sink: hasSink(data, state), kept: [], doubts: null },
    doubts = isWhole(plain) && estimated(data, name) ? errorsOf(data, name, state.layer, state.token) : null,
    bare = { ...plain, doubts },
    columns = columnsOf(bare, room),
    { all, total } = gathered(net, columns, bare.sink),
    limits = state.keep ? { keep: state.keep } : { most: crowd(net, columns.length) },
    some = isWhole(bare) ? { kept: all, share: named(columns, net.input) } : strongest(all, total, limits);
  return { picture: { ...bare, kept: some.kept }, at: placed(bare, columns, room), share: some.share, all };
}

/** @param {Picture} picture */
function columnsOf({ net, data, state, mode, sink, ...rest }, room) {
  const weights = passing(net, mode),
    into = mode === "into",
    seen = into && data.causal ? weights.subarray(0, state.token + 1) : weights, // later tokens give nothing
    whole = isWhole({ net, data, state, mode, sink, ...rest }),
    fits = seen.length <= (whole ? columnsIn(room) : Math.min(columnsIn(room), FEW)),
    keep = (whole && state.keep) || (fits ? 1 : USUAL),
    fixed = [...new Set([...(sink ? [0] : []), ...(into ? [state.token] : [])])];
  return fits && keep === 1 ? single(seen) : bundled(seen, columnsIn(room), fixed, keep);
}

/** @param {Picture} picture @returns {At} */
function placed(picture, columns, room) {
  const { net, data, mode } = picture,
    whole = isWhole(picture);
  const label = (column) => (isBundle(column) ? `${column.end - column.first} more` : data.tokens[column.first].shown),
    widths = columns.map((column) => textWidth(label(column), 12, isBundle(column) ? SANS : MONO)),
    look = { columns, above: whole ? ABOVE : undefined, shares: mode === "into" ? 42 : 0, whole },
    at = flowLayout(net.rows.length, widths, room, look);
  return { ...at, label: (column) => fitted(label(column), at.room(column), 12) };
}

// How much of the flow comes from tokens that are named.
function named(columns, weights) {
  const alone = columns.filter((column) => !isBundle(column)).reduce((so, { share }) => so + share, 0);
  return alone / (sum(weights, 0, weights.length) || 1);
}

/** @param {Data} data @param {Picture} picture @param {At} at */
function table(data, { kept, net, doubts }, { columns, places }, name) {
  const where = (first) => {
    const { end } = columns[places[first]];
    return end - first > 1 ? [`${first}–${end - 1}`, `${end - first} tokens`] : [first, data.tokens[first].text];
  };
  const errorOf = ({ first, end }) => (end - first > 1 ? "" : doubts[first]); // of several together nobody knows it
  const rows = kept
    .toReversed()
    .map(({ from, source, to, target, weight, strength }) => [
      ...[name, net.rows[from], ...where(source), net.rows[to], ...where(target)],
      ...[weight, strength],
      ...(doubts ? [errorOf(columns[places[source]])] : []),
    ]);
  return { header: [...HEADER, "share", "share_of_the_flow", ...(doubts ? ["standard_error"] : [])], rows };
}

/** @returns {string[][]} */
function options(data) {
  return data.flows.map((name) => [name, title(data, name)]);
}

/** @param {Data} data @param {Picture} picture */
function finding(data, { net, sink }, name, state) {
  const format = part(data, name),
    own = sink ? Float32Array.from(net.input, (share, at) => (at ? share : 0)) : net.input;
  const best = largest(own, 3, 0.005),
    names = apart(
      best.map((source) => called(data, source)),
      best,
    );
  const parts = best.map(
    (source, at) => `${source === state.token ? "itself" : names[at]} (${format(net.input[source])})`,
  );
  const rest = sink ? `; ${format(net.input[0])} to the ${data.sinks.words.label}` : "";
  return `“${called(data, state.token)}” in layer ${data.layers[state.layer]} goes back to ${listed(parts)}${rest}`;
}

function subtitle(data, { picture, at, share, all }, name, mode) {
  const { net, kept, sink } = picture,
    { paths, verb, to } = wording(data, name),
    heads = net.head === "mean" ? `, mean of ${data.heads} heads` : `, head ${net.head}`,
    into = mode === "into" ? "share of the flow into the chosen token" : `how much a row ${verb} ${to} a source`;
  const [some, whole] = [kept, all].map(({ length }) => length.toLocaleString("en")),
    bundles = at.columns.filter(isBundle).length;
  const by = `Links by ${title(data, name)}${byHead(data, name) ? heads : ""}`,
    drawn = isWhole(picture)
      ? bundles && `The tokens named have ${percent(share)}.`
      : `${some} of ${whole} links are drawn, with ${percent(share)} of the flow.`,
    apart = bundles ? "Neighbours that matter less are bundled." : "",
    doubt = estimated(data, name),
    soft = picture.doubts ? "Soft edges: two standard errors." : "";
  return [`${by}; width: ${into}.`, `${paths}.`, drawn, apart, doubt, soft, sink && sinking(data, "node")]
    .filter(Boolean)
    .join(" ");
}

/**
 * What the other views go by, where that is something else, and a way to have the same there.
 * @param {Data} data @param {import("../core/state.js").State} state
 */
function agreement(data, state, net, name) {
  const field = sources(data, state);
  if (!field || field.variable === name || net.rows.length < 2) return [];
  const row = shares(data, field.variable, state.layer, state.token),
    [most] = largest(row, 1),
    there = most === undefined ? "" : ` (most: “${called(data, most)}”, ${part(data, field.variable)(row[most])})`,
    same = data.fields.some(({ kind, variable }) => kind === "sources" && variable === name);
  const looks = field.since_input ? "" : ", which looks at this layer alone",
    words = `“Where from” is by ${field.title}${there}${looks}. `;
  const button = h("button", { type: "button", class: "quiet", onclick: () => state.set({ map: name }) });
  button.textContent = `Use ${title(data, name)} there too`;
  return [words, ...(same ? [button] : [])];
}

function frame(body) {
  const base = h("canvas", {}),
    over = h("canvas", { class: "over" }),
    look = { class: "grid flow", tabindex: "0", role: "application", "aria-roledescription": "flow diagram" };
  return { element: body.appendChild(h("div", look, base, over)), base, over };
}

/**
 * What is told of a column: what it has of the flow, and what it takes most from.
 * @param {Data} data @param {Picture} picture @param {At} at
 */
function describe(data, picture, at, name, { row, column }) {
  const { net, kept, doubts } = picture,
    format = part(data, name),
    { to } = wording(data, name),
    { first, end } = at.columns[at.places[column]],
    where = row === 0 ? "input" : `layer ${net.rows[row]}`;
  if (end - first > 1) {
    const inside = net.reach[row].subarray(first, end),
      most = largest(inside, 3).map((place) => `${format(inside[place])} ${called(data, first + place)}`);
    return [
      `${first} to ${end - 1}: ${end - first} tokens, ${where}`,
      `${format(sum(inside, 0, end - first))} together`,
      ...most,
    ].join("\n");
  }
  const links = kept.filter((link) => link.to === row && link.target === column).toReversed();
  const off = (source) => (row ? error(data, name, net.layers[row - 1], column, source) : "");
  const own =
    picture.mode === "into" && row < net.rows.length - 1
      ? [`${format(net.reach[row][column])}${doubts ? ` ± ${percent(doubts[column])}` : ""} of the flow`]
      : [];
  const from = links
    .filter(({ weight }) => Number.isFinite(weight))
    .slice(0, 3)
    .map(({ weight, source }) => `${format(weight)}${off(source)} ${to} ${called(data, source)} (${source})`);
  return [`${called(data, column)} (${column}), ${where}`, ...own, ...from].join("\n");
}

/** @param {ReturnType<typeof frame>} parts @param {Picture} picture @param {At} at @param {string} name */
function show({ element, base, over }, picture, at, name) {
  const { data, state, net } = picture,
    tell = (cell) => describe(data, picture, at, name, cell),
    hover = (cell) => paint(over, highlights(picture, at, cell), at);
  paint(base, marks(picture, at), at);
  hover(null);
  const here = tell({ row: rowOf(net, state.layer), column: at.columns[at.places[state.token]].first });
  element.setAttribute("aria-label", `Flow, layers by tokens. Arrow keys move. ${here}`);
  let shown = "";
  walkable(element, {
    at,
    describe: tell,
    hover: (cell) => {
      if (shown !== JSON.stringify(cell)) hover(cell);
      shown = JSON.stringify(cell);
    },
    pick: ({ row, column }) => {
      const layer = row === 0 ? state.layer : data.layers.indexOf(net.rows[row]),
        { first, end } = at.columns[at.places[column]],
        token = first + largest(net.reach[row].subarray(first, end), 1).concat(0)[0];
      state.set({ token, source: token, layer });
    },
    keys: {
      ...{ here: { row: state.layer, column: state.token }, rows: data.layers.length, columns: data.tokens.length },
      go: ({ row, column }) => state.set({ token: column, source: column, layer: row }),
      say: ({ row, column }) => `${called(data, column)}, layer ${data.layers[row]}`,
    },
  });
}
