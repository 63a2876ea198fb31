// @ts-check
// The links of the flow view: which token of one row feeds which of the next, and how much of the flow goes that way.

import { perHead, sharing, sinceInput } from "../core/data.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {{ layer: number, token: number, head: number | "mean" }} Chosen
 * @typedef {{ from: number, source: number, to: number, target: number, weight: number, strength: number }} Link
 * @typedef {{ rows: number[], layers: number[], head: number | "mean", maps: Float32Array[], links: Link[],
 *   reach: Float32Array[], input: Float32Array }} Net  rows: 0 for the input, then layers; links: weakest first;
 *   input: what of the chosen token goes back to each input token; reach: the same for every row
 */

const TINY = (width, into) => (into ? 0.001 : width > 60 ? 0.005 : 0.002); // shares below are never drawn
const STEPS = [0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7];

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
    ...{ links: [], reach: [], input: null },
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
    if (!(Math.abs(share) > least)) continue;
    for (let source = 0; source < width; source++) {
      const weight = values[target * width + source],
        strength = weight * share;
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

/**
 * The threshold at which a picture is full but not crowded.
 * @param {Net} net @param {number} width @param {string} mode
 */
export function automatic(net, width, mode) {
  const most = width > 60 ? (mode === "into" ? 400 : 1500) : Math.max(width * net.layers.length * 1.5, 60);
  return STEPS.find((least) => net.links.length - below(net.links, least) <= most) ?? 0.9;
}

function below(links, least) {
  let low = 0,
    high = links.length; // sorted by strength
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Math.abs(links[middle].strength) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
