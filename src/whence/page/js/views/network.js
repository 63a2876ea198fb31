// @ts-check
// The links of the flow view: which token of one row feeds which of the next, and how much of the flow goes that way.

import { isBundle, placesOf } from "../core/bundle.js";
import { perHead, sharing, sinceInput, sinks } from "../core/data.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {import("../core/bundle.js").Column} Column
 * @typedef {{ layer: number, token: number, head: number | "mean" }} Chosen
 * @typedef {{ from: number, source: number, to: number, target: number, weight: number, strength: number }} Link
 * @typedef {{ rows: number[], layers: number[], head: number | "mean", maps: Float32Array[], links: Link[],
 *   total: number, reach: Float32Array[], input: Float32Array }} Net  rows: 0 for the input, then layers; links:
 *   weakest first; total: of the sizes of all links, those too weak to be listed included; input: what of the chosen
 *   token goes back to each input token; reach: the same for every row
 */

const TINY = (width, into) => (into ? 0.001 : width > 60 ? 0.005 : 0.002); // shares below are never drawn

/**
 * @param {Data} data @param {string} name @param {Chosen} state @param {string} mode @returns {Net}
 */
export function network(data, name, state, mode) {
  const head = perHead(data, name) ? state.head : "mean",
    into = mode === "into" ? [state.layer, state.token] : [sinceInput(data, name) ? state.layer : ""],
    key = [name, head, mode, ...into].join(" ");
  const known = held.get(data.cache);
  const net = known?.key === key ? known.net : build(data, name, head, state, mode);
  held.set(data.cache, { key, net });
  return mode === "into" ? net : { ...net, input: traced(data, net, state).at(0) };
}
const held = new WeakMap(); // the last one of each sentence

function build(data, name, head, state, mode) {
  const direct = sinceInput(data, name),
    into = mode === "into";
  const layers = direct ? [state.layer] : [...data.layers.keys()];
  /** @type {Net} */
  const net = {
    rows: [0, ...layers.map((layer) => data.layers[layer])],
    maps: layers.map((layer) => sharing(data, name, layer, head)),
    layers,
    head,
    ...{ links: [], reach: [], input: null, total: 0 },
  };
  net.reach = traced(data, net, state);
  net.input = net.reach[0];
  for (const place of layers.keys()) gather(net, place, data.tokens.length, into ? net.reach[place + 1] : null);
  net.links.sort((one, other) => Math.abs(one.strength) - Math.abs(other.strength));
  return net;
}

function gather(net, place, width, reach) {
  const values = net.maps[place],
    least = TINY(width, reach !== null);
  for (let target = 0; target < width; target++) {
    const share = reach ? reach[target] : 1;
    if (!share) continue;
    for (let source = 0; source < width; source++) {
      const weight = values[target * width + source],
        strength = weight * share;
      net.total += Math.abs(strength) || 0;
      if (Math.abs(strength) > least) net.links.push({ from: place, source, to: place + 1, target, weight, strength });
    }
  }
}

/**
 * How much of the chosen token, at its layer, goes back to each token of each row below.
 * @param {Data} data @param {Net} net @param {Chosen} state
 */
function traced(data, net, state) {
  const width = data.tokens.length,
    top = rowOf(net, state.layer);
  const reach = net.rows.map(() => new Float32Array(width));
  reach[top][state.token] = 1;
  for (let row = top; row > 0; row--) {
    const values = net.maps[row - 1];
    for (let target = 0; target < width; target++) {
      const share = reach[row][target];
      if (share)
        for (let source = 0; source < width; source++)
          reach[row - 1][source] += share * (values[target * width + source] || 0);
    }
  }
  return reach;
}

// The row of a layer, by its place among the layers.
export function rowOf(net, layer) {
  return net.layers.indexOf(layer) + 1;
}

/** How much of the flow passes each token: at most, over the rows, or all that leaves it. @param {Net} net */
export function passing(net, mode) {
  const found = new Float32Array(net.input.length);
  if (mode === "into")
    for (const reach of net.reach.slice(0, -1))
      for (const [at, share] of reach.entries()) found[at] = Math.max(found[at], Math.abs(share));
  else for (const { source, strength } of net.links) found[source] += Math.abs(strength);
  return found;
}

/**
 * Whether the first token is a sink for the chosen one: a decoder's, that holds most of its attention in some layer up
 * to the chosen one.
 * @param {Data} data @param {Chosen} state
 */
export function hasSink(data, { layer, token }) {
  return data.causal && token > 0 && data.layers.some((_, at) => at <= layer && sinks(data, at)[token] === "1");
}

/**
 * Links of tokens that share a column go together; those of a sink with itself are left out, because nothing happens
 * on the way. Weakest first; `total` is what all of them carry, those too weak to be listed included.
 * @param {Net} net @param {Column[]} columns @param {boolean} sink
 */
export function gathered({ links, total }, columns, sink) {
  const places = placesOf(columns),
    /** @type {Map<string, Link>} */
    joined = new Map();
  for (const link of links) {
    if (sink && link.source === 0 && link.target === 0) {
      total -= Math.abs(link.strength);
      continue;
    }
    const [below, above] = [columns[places[link.source]], columns[places[link.target]]],
      key = [link.from, below.first, above.first].join(" "),
      known = joined.get(key);
    const weight = isBundle(below) || isBundle(above) ? NaN : link.weight;
    if (known) known.strength += link.strength;
    else joined.set(key, { ...link, source: below.first, target: above.first, weight });
  }
  return { total, all: [...joined.values()].sort((one, other) => Math.abs(one.strength) - Math.abs(other.strength)) };
}

/**
 * The strongest links that carry so much of the flow, or so many at most; with the share they carry.
 * @param {Link[]} links  weakest first @param {number} total @param {{ keep?: number, most?: number }} limits
 */
export function strongest(links, total, { keep = 1, most = Infinity }) {
  let [first, carried] = [links.length, 0];
  while (first > 0 && links.length - first < most && carried < keep * total)
    carried += Math.abs(links[--first].strength);
  return { kept: links.slice(first), share: total ? carried / total : 1 };
}

/** How many links make a picture that is full but not crowded. @param {Net} net @param {number} columns */
export function crowd(net, columns) {
  return Math.max(columns * net.layers.length * 1.5, 60);
}
