// What the page knows: the payload of whence.report.payload with its arrays unpacked.

const MISSING = -32768; // NaN among int16 steps
const KEPT = 2 ** 24; // values kept unpacked

// `bytes` holds the arrays when they came beside the payload; `before` is the same sentence with fewer measures.
export async function open(payload, { bytes = null, before = null } = {}) {
  const names = Object.keys(payload.variables);
  const arrays = await Promise.all(names.map((name) => unpack(payload.variables[name], bytes)));
  const variables = Object.fromEntries(names.map((name, place) => [name, arrays[place]]));
  for (const one of arrays) if (one.of) one.of = one.of.map((name) => variables[name]);
  const beside = {};
  for (const [name, one] of Object.entries(payload.beside ?? {})) beside[name] = await open(one);
  return { ...payload, variables: { ...before?.variables, ...variables }, beside, cache: before?.cache ?? new Map() };
}

// The map of one layer, target by source; `head` is a number or "mean". What a causal model cannot see is NaN.
export function map(data, name, layer, head = "mean") {
  const key = `${name} ${layer} ${head}`;
  if (!data.cache.has(key)) {
    if (data.cache.size >= Math.max(KEPT / data.tokens.length ** 2, 64)) data.cache.clear();
    data.cache.set(key, fresh(data, name, layer, head));
  }
  return data.cache.get(key);
}

// The same, not kept: for pictures that pass over every head once.
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

// Numbers along the last axis but one and the last, for one place of the axes before.
export function plane(variable, lead) {
  if (variable.of) return less(...variable.of.map((one) => plane(one, lead)));
  if (variable.factors) return product(...variable.factors.map((one) => plane(one, lead)), variable.shape.at(-1));
  const size = variable.shape.at(-1) * variable.shape.at(-2);
  const part = variable.values.subarray(lead * size, (lead + 1) * size);
  if (!variable.scale) return part.slice();
  const step = variable.scale[lead],
    found = new Float32Array(size);
  for (let place = 0; place < size; place++) found[place] = part[place] === MISSING ? NaN : part[place] * step;
  return found;
}

function less(whole, part) {
  return whole.map((value, place) => value - part[place]);
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

export function mixing(data, analysis) {
  return plane(data.variables.mixing, data.analysis_places[analysis]);
}

// A row as shares of its sum, unless it has negative parts.
export function shares(data, name, layer, token, head = "mean") {
  const width = data.tokens.length;
  return sharing(data, name, layer, head).slice(token * width, (token + 1) * width);
}

// A whole map with every row as shares of its sum, unless it has negative parts.
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

// What to say of a map in a layer that does not have it; nothing where it does.
export function lacking(data, name, layer) {
  if (!data.absent[name]?.includes(layer)) return "";
  const others = layersOf(data, name).map((one) => data.layers[one]);
  return `Layer ${data.layers[layer]} does not attend; ${others.length > 1 ? `layers ${others.slice(0, -1).join(", ")} and ${others.at(-1)} do` : `layer ${others[0]} does`}`;
}

// Does this map count from the input, through all layers up to its own, or only through its own layer?
export function sinceInput(data, name) {
  return wording(data, name)?.since_input ?? false;
}

// Are the rows shares, adding up to one in the last layer? Norms need not; what is accumulated from shares does.
export function addsUp(data, name) {
  const values = map(data, name, layersOf(data, name).at(-1)),
    width = data.tokens.length;
  for (let target = 0; target < width; target++) {
    let sum = 0;
    for (let source = 0; source < width; source++) sum += values[target * width + source] || 0;
    if (Math.abs(sum - 1) > 0.01) return false;
  }
  return true;
}

// The words in which a map is spoken of: weights say where a token looks, not what it is made of.
export function wording(data, name) {
  return data.wordings[data.styles[name]?.wording];
}

// A sentence with its {names} filled in.
export function said(sentence, words) {
  return sentence.replace(/\{(\w+)\}/g, (_, name) => words[name]);
}

export function title(data, name) {
  return data.styles[name]?.title ?? name;
}

// A token inside a sentence: cut when very long, and kept apart so that its direction changes nothing around it.
export function called(data, place) {
  const { shown } = data.tokens[place];
  return `\u2068${shown.length > 40 ? `${shown.slice(0, 39)}…` : shown}\u2069`;
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
