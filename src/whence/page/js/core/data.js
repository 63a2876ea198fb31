// @ts-check
// What the page knows: the payload of whence.page.payload with its arrays unpacked.

import { number, percent } from "./scale.js";

/**
 * @typedef {{ text: string, shown: string, word: string, special: boolean }} Token
 * @typedef {{ dims: string[], shape: number[], signed: boolean, values?: Float32Array | Int16Array,
 *   scale?: Float32Array | null, factors?: Variable[], of?: Variable[] }} Variable
 * @typedef {{ title: string, meaning: string, percent: boolean, note: string, wording: string }} Style
 * @typedef {{ verb: string, to: string, rows: string, when: string, shade: string, most: string, paths: string,
 *   since_input: boolean }} Wording
 * @typedef {{ key: string, variable: string, read: "own" | "others" | "values" | "row", place: number, style: string,
 *   kind: string, title: string, label: string, name: string, group: string, meaning: string, finding: string,
 *   unit: string, since_input: boolean, percent: boolean }} Field  a number for every layer and token
 * @typedef {{ stage: string, place: number, best: string[], scores: number[], chance?: number, chances?: number[] }}
 *   Step  of the LM head; `chance` is the probability of what is predicted, `chances` those of the best tokens
 * @typedef {{ position: number, at: string, token: string, finding: string, rows: Step[],
 *   chances: number[] }} Prediction
 * @typedef {{ position: number, stages: string[], spearman: number[][], rows: Step[] }} Lens
 * @typedef {{ finding: string, credit: string, attrs: Record<string, string>, causal: boolean, tokens: Token[],
 *   layers: number[],
 *   heads: number, rows: number[] | null, maps: string[], head_maps: string[], flows: string[], fields: Field[],
 *   panels: string[], state?: string,
 *   sums: { names: string[], meaning: string, nothing: string }[], notes: string[], errors: Record<string, string>,
 *   absent: Record<string, number[]>, predictions: Prediction[], lens: Lens[], lm_head: Record<string, string>,
 *   sinks: { words?: Record<string, string>, rows?: string[], heads?: string[][] },
 *   styles: Record<string, Style>, wordings: Record<string, Wording>, variables: Record<string, Variable>,
 *   terms: Record<string, string>, signed: Record<string, string[]>, steps: Record<string, string>,
 *   palette: Record<string, import("./scale.js").Palette>, beside: Record<string, Data>,
 *   texts: { title: string, first: number }[], alignment: { maps: string[], words: [number, number][] } | null,
 *   far?: Data & { key: string }, why?: any, lensed?: any, scene?: import("./patches.js").Scene | null,
 *   cache: Map<string, any> }} Data
 * @typedef {(data: Data, name: string, layer: number, head?: number | "mean") => Float32Array} OneMap
 */
// `texts` are those of an encoder-decoder, by the places of their first tokens; none where there is one text

const MISSING = -32768; // NaN among int16 steps
const KEPT = 2 ** 24; // values kept unpacked
const MOST_READ = 64; // arrays kept of one variable

/**
 * `bytes` holds the arrays when they came beside the payload; `before` is the same sentence with fewer measures.
 * @returns {Promise<Data>}
 */
export async function open(payload, { bytes = null, before = null } = {}) {
  const names = Object.keys(payload.variables);
  const arrays = await Promise.all(names.map((name) => unpack(payload.variables[name], bytes)));
  const variables = Object.fromEntries(names.map((name, place) => [name, arrays[place]]));
  for (const one of arrays) if (one.of) one.of = one.of.map((name) => variables[name]);
  const beside = {};
  for (const [name, one] of Object.entries(payload.beside ?? {})) beside[name] = await open(one);
  const why = payload.why ? await open(payload.why) : before?.why;
  const kept = { variables: { ...before?.variables, ...variables }, cache: before?.cache ?? new Map() };
  if (before?.far) Object.assign(kept, { far: before.far });
  return { ...payload, ...kept, beside, why, lensed: before?.lensed };
}

/** The map of one layer, target by source. What a causal model cannot see is NaN. @type {OneMap} */
export function map(data, name, layer, head = "mean") {
  const key = `${name} ${layer} ${head}`;
  if (!data.cache.has(key)) {
    if (data.cache.size >= Math.max(KEPT / data.tokens.length ** 2, 64)) data.cache.clear();
    data.cache.set(key, fresh(data, name, layer, head));
  }
  return data.cache.get(key);
}

/** The same, not kept: for pictures that pass over every head once. @type {OneMap} */
export function fresh(data, name, layer, head) {
  const variable = data.variables[name];
  if (!variable.dims.includes("head")) return blank(data, plane(variable, layer));
  if (head !== "mean") return blank(data, plane(variable, layer * data.heads + head));
  const mean = new Float32Array(data.tokens.length ** 2);
  for (let one = 0; one < data.heads; one++) {
    const values = plane(variable, layer * data.heads + one);
    for (let place = 0; place < mean.length; place++) mean[place] += values[place] / data.heads;
  }
  return blank(data, mean);
}

/**
 * Numbers along the last axis but one and the last, for one place of the axes before.
 * @param {Variable} variable @param {number} lead @returns {Float32Array}
 */
export function plane(variable, lead) {
  const [one, other] = (variable.of ?? variable.factors ?? []).map((part) => plane(part, lead));
  if (variable.of) return one.map((value, place) => value - other[place]);
  if (variable.factors) return product(one, other, variable.shape.at(-1));
  const size = variable.shape.at(-1) * variable.shape.at(-2);
  const part = variable.values.subarray(lead * size, (lead + 1) * size);
  if (!variable.scale) return Float32Array.from(part);
  const step = variable.scale[lead],
    found = new Float32Array(size);
  for (let place = 0; place < size; place++) found[place] = part[place] === MISSING ? NaN : part[place] * step;
  return found;
}

// Of two matrices, the right one with so many columns.
function product(left, right, columns) {
  const inner = right.length / columns,
    found = new Float32Array((left.length / inner) * columns);
  for (let at = 0; at < left.length; at++) {
    const weight = left[at],
      to = Math.floor(at / inner) * columns,
      from = (at % inner) * columns;
    for (let column = 0; column < columns; column++) found[to + column] += weight * right[from + column];
  }
  return found;
}

/**
 * A number for every layer and token, layer by layer; sources are those of the token.
 * @param {Data} data @param {Field} field @param {number} token @returns {Float32Array}
 */
export function values(data, field, token) {
  const { variable, read, place } = field,
    key = `${read} ${place} ${read === "row" ? token : ""}`,
    kept = numbersRead.get(data.variables[variable]) ?? new Map();
  numbersRead.set(data.variables[variable], kept);
  if (kept.size > MOST_READ) kept.clear();
  if (!kept.has(key)) kept.set(key, numbersOf(data, field, token));
  return kept.get(key);
}
const numbersRead = new WeakMap(); // of each variable what was read of it: the same array is drawn again as it was

function numbersOf(data, { variable, read, place }, token) {
  if (read === "values") return plane(data.variables[variable], place);
  const width = data.tokens.length,
    found = new Float32Array(data.layers.length * width);
  for (const layer of data.layers.keys()) {
    if (read === "row") found.set(shares(data, variable, layer, token), layer * width);
    else {
      const own = map(data, variable, layer).filter((_, at) => at % (width + 1) === 0);
      found.set(read === "own" ? own : own.map((share) => 1 - share), layer * width);
    }
  }
  return found;
}

/** How a model is called: of a path on somebody's disk only the end. @param {string} name */
export function modelName(name) {
  return /^([/.~\\]|[A-Za-z]:)/.test(name) ? (name.split(/[\\/]/).findLast(Boolean) ?? name) : name;
}

// Means over tokens, layer by layer.
export function byLayer(data, numbers) {
  const width = data.tokens.length;
  return data.layers.map((_, layer) => mean(numbers.subarray(layer * width, (layer + 1) * width)));
}

/**
 * A row as shares of its sum, unless it has negative parts.
 * @param {Data} data @param {string} name @param {number} layer @param {number} token
 * @param {number | "mean"} head
 */
export function shares(data, name, layer, token, head = "mean") {
  const width = data.tokens.length;
  return sharing(data, name, layer, head).slice(token * width, (token + 1) * width);
}

/** A whole map with every row as shares of its sum, unless it has negative parts. @type {OneMap} */
export function sharing(data, name, layer, head = "mean") {
  if (data.variables[name].signed) return map(data, name, layer, head);
  const key = `shares ${name} ${layer} ${head}`;
  if (!data.cache.has(key)) data.cache.set(key, normalised(map(data, name, layer, head), data.tokens.length));
  return data.cache.get(key);
}

function normalised(values, width) {
  const found = Float32Array.from(values);
  for (let start = 0; start < found.length; start += width) {
    let total = 0;
    for (let place = start; place < start + width; place++) total += found[place] || 0;
    if (total > 0) for (let place = start; place < start + width; place++) found[place] /= total;
  }
  return found;
}

// The places of the layers that have this map: where only some layers attend, the others have no attention.
export function layersOf(data, name) {
  const absent = data.absent[name] ?? [];
  return [...data.layers.keys()].filter((layer) => !absent.includes(layer));
}

// What to say of a map in a layer that does not have it, or of a token that was not measured; nothing where both are.
export function lacking(data, name, layer, token = -1) {
  if (token >= 0 && data.rows && !data.rows.includes(token)) return `“${called(data, token)}” was not measured`;
  if (!data.absent[name]?.includes(layer)) return "";
  const others = layersOf(data, name).map((one) => data.layers[one]),
    [noun, verb] = others.length > 1 ? ["layers", "do"] : ["layer", "does"];
  return `Layer ${data.layers[layer]} does not attend; ${noun} ${listed(others)} ${verb}`;
}

// Does this map count from the input, through all layers up to its own, or only through its own layer?
export function sinceInput(data, name) {
  return wording(data, name)?.since_input ?? false;
}

export function perHead(data, name) {
  return data.variables[name]?.dims.includes("head") ?? false;
}

// How a value of this map is written.
export function written(data, name) {
  return data.styles[name]?.percent ? percent : number;
}

// How a part of a row is written: as a share of it, unless it has negative parts of no known whole; an estimate as one.
export function part(data, name) {
  const format = data.variables[name].signed ? written(data, name) : percent;
  return estimated(data, name) ? (value) => `~${format(value)}` : format;
}

/** The standard errors of a token's sources; nothing of what is exact. @param {Data} data @param {string} name */
export function errorsOf(data, name, layer, token) {
  const found = data.variables[data.errors?.[name]],
    width = data.tokens.length;
  return found ? plane(found, layer).subarray(token * width, (token + 1) * width) : null;
}

// What an estimate may be off by.
export function error(data, name, layer, token, source) {
  const value = errorsOf(data, name, layer, token)?.[source];
  return value > 0 ? ` ± ${percent(value)}` : "";
}

/**
 * What is said of numbers that were estimated; nothing of others. They have a `~` where they are written.
 * @param {Data} data @param {string} name
 */
export function estimated(data, name) {
  const found = data.variables[data.errors?.[name]],
    key = `estimated ${name}`;
  if (!found) return "";
  if (!data.cache.has(key)) {
    let largest = 0;
    for (let layer = 0; layer < data.layers.length; layer++)
      for (const value of plane(found, layer)) if (value > largest) largest = value;
    data.cache.set(key, largest ? `~: estimates, with standard errors of ${percent(largest)} at most.` : "");
  }
  return data.cache.get(key);
}

// What is known of one head, in words.
export function notes(data, layer, head) {
  return data.notes.map((name) =>
    said(data.styles[name].note, { value: number(data.variables[name].values[layer * data.heads + head]) }),
  );
}

/**
 * The rows that rest on the first token, as 0 and 1 by token, in a head or by the mean of all; nothing without a sink.
 * @param {Data} data @param {number} layer @param {number | "mean"} head
 */
export function sinks(data, layer, head = "mean") {
  return (head === "mean" ? data.sinks?.rows?.[layer] : data.sinks?.heads?.[layer]?.[head]) ?? "";
}

/** Of these flags those of rows that were measured and may rest on the first token: all but its own. */
export function others(data, flags) {
  return [...flags].filter((_, row) => row > 0 && (data.rows?.includes(row) ?? true)).join("");
}

/**
 * What is said of rows that rest on the first token: `name` is a row of the table of words; `rows` are 0 and 1.
 * @param {Data} data @param {string} name
 */
export function sinking(data, name, rows = "") {
  const count = rows.split("1").length - 1;
  return said(data.sinks.words[name], { first: `“${called(data, 0)}”`, rows: count, all: rows.length });
}

/**
 * The words in which a map is spoken of: weights say where a token looks, not what it is made of.
 * @param {Data} data @param {string} name
 */
export function wording(data, name) {
  return data.wordings[data.styles[name]?.wording];
}

/** Where the second of two texts begins; nothing where there is one. @param {{ texts?: Data["texts"] }} data */
export function border({ texts }) {
  return texts?.[1]?.first;
}

// A sentence with its {names} filled in.
export function said(sentence, words) {
  return sentence.replace(/\{(\w+)\}/g, (_, name) => words[name]);
}

export function title(data, name) {
  return data.styles[name]?.title ?? name;
}

// A token inside a sentence: without the mark of the space before it, cut when very long, and kept apart so that its
// direction changes nothing around it.
export function called(data, place) {
  return `\u2068${cut(data.tokens[place].shown.replace(/^▁(?!$)/, ""), 40)}\u2069`;
}

/**
 * Names as they stand in one sentence: those that are written alike carry their places.
 * @param {string[]} names @param {ArrayLike<number>} places
 */
export function apart(names, places) {
  const alone = (name) => names.indexOf(name) === names.lastIndexOf(name);
  return names.map((name, at) => `“${name}”${alone(name) ? "" : ` at ${places[at]}`}`);
}

export function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// "a, b and c"
export function listed(parts) {
  return parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts.join("") || "nothing";
}

// The largest of these numbers, their places, the largest first.
export function largest(numbers, count, least = 0) {
  const there = [...numbers.keys()].filter((place) => numbers[place] > least);
  return there.sort((one, other) => numbers[other] - numbers[one]).slice(0, count);
}

// The place of the number farthest from zero, or with `size` of the largest by it; -1 when there is none.
export function farthest(numbers, size = Math.abs) {
  let at = -1;
  for (let place = 0; place < numbers.length; place++)
    if (Number.isFinite(numbers[place]) && !(at >= 0 && size(numbers[place]) <= size(numbers[at]))) at = place;
  return at;
}

export function mean(values) {
  let sum = 0,
    count = 0;
  for (const value of values)
    if (Number.isFinite(value)) {
      sum += value;
      count += 1;
    }
  return count ? sum / count : NaN;
}

function blank(data, values) {
  if (!data.causal) return values;
  const width = data.tokens.length;
  for (let target = 0; target < width; target++) values.fill(NaN, target * width + target + 1, (target + 1) * width);
  return values;
}

async function unpack(variable, bytes) {
  if (variable.kind === "difference") return { ...variable };
  if (variable.kind === "product")
    return { ...variable, factors: await Promise.all(variable.factors.map((one) => unpack(one))) };
  const Kind = variable.kind === "int16" ? Int16Array : Float32Array;
  const [values, scale] = bytes
    ? placed(variable, bytes, Kind)
    : [
        gather(await inflate(variable.data), Kind),
        variable.scale ? gather(await inflate(variable.scale), Float32Array) : null,
      ];
  return { dims: variable.dims, shape: variable.shape, signed: variable.signed, values, scale };
}

// Arrays as they lie in the bytes behind the header.
function placed(variable, { buffer, start }, Kind) {
  const count = variable.shape.reduce((product, length) => product * length, 1),
    maps = count / (variable.shape.at(-1) * variable.shape.at(-2));
  const scale = "scale_at" in variable ? new Float32Array(buffer, start + variable.scale_at, maps) : null;
  return [new Kind(buffer, start + variable.data_at, count), scale];
}

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Bytes grouped by significance, back to numbers.
function gather(bytes, Kind) {
  const width = Kind.BYTES_PER_ELEMENT,
    count = bytes.length / width;
  const woven = new Uint8Array(bytes.length);
  for (let byte = 0; byte < width; byte++)
    for (let place = 0; place < count; place++) woven[place * width + byte] = bytes[byte * count + place];
  return new Kind(woven.buffer);
}
