// @ts-check
// What is selected, kept in the address after # so that a link brings it back.

/**
 * @typedef {import("./data.js").Data} Data
 * @typedef {{ data: Data, live: any, shade: string, layer: number, token: number, source: number,
 *   head: number | "mean", view: string, show: string, map: string, maps: string, minus: string, tiles: string,
 *   flow: string, links: string, keep: any, field: string, against: string, theme: string, other?: string,
 *   edited?: string, asked?: string, at: any, depth: any, rather?: string, chat?: string, generate?: string,
 *   spans?: string, far?: string, first?: Record<string, string>,
 *   set(changes: Record<string, any>): void, address(): string, follow(data: Data): void,
 *   save(): void }} State  the selection, the same for every view: `layer` is a place among
 *   the layers, `shade` the theme as drawn, `live` what a live page can be asked for, `keep` a share or ""
 */

const place = (text, data) => (Number(text) in data.tokens ? Number(text) : -1);
const READ = {
  view: String,
  layer: (text, data) => data.layers.indexOf(Number(text)),
  token: place,
  source: place,
  head: (text, data) => (text === "mean" ? text : Number(text) < data.heads && /^\d+$/.test(text) ? Number(text) : -1),
  show: String,
  map: String,
  maps: String,
  minus: String,
  tiles: String,
  flow: String,
  links: String,
  keep: (text) => (Number(text) >= 0 && Number(text) <= 1 ? Number(text) : -1),
  field: String,
  against: String,
  depth: (text) => (/^\d+$/.test(text) ? Number(text) : -1), // among the layers of the prediction, from the embeddings
  at: (text) => (/^\d+$/.test(text) ? Number(text) : -1), // the prediction that the page is about
  theme: (text) => (["light", "dark"].includes(text) ? text : -1),
};
const WRITE = { layer: (value, data) => data.layers[value] };
// What was asked for, beside what is selected: only a live page has them.
const ASKED = ["text", "pair", "model", "measures", "once", "truncate", "asked", "edited", "other"];
ASKED.push("rather", "chat", "generate", "spans"); // of the prediction
ASKED.push("far"); // the layer and the head of the map of a long text

const PLACES = ["layer", "token", "source", "head", "at", "depth"]; // mean nothing in another sentence

/**
 * `change` is called after each `set`. Inside another page, `alone`, the address is not ours.
 * @param {Data} data
 * @param {(state: State) => void} change
 * @returns {State}
 */
export function create(data, change, alone = false) {
  /** @type {any} */
  const state = { data, live: null };
  /** @type {any} */
  let asked = 0;
  let followed = ""; // the address as it was last read or written here
  const elsewhere = () => !alone && location.hash !== followed; // the event of somebody's going there is yet to come
  const before = () => state.live?.before() ?? false; // the pictures are still of the sentence before the address's
  const save = () => {
    asked = 0;
    if (elsewhere()) return;
    history.replaceState(history.state, "", `#${state.address()}`);
    followed = location.hash;
  };
  // What is selected, as it stands after #; places in pictures of another sentence stay out of it.
  state.address = () => (before() ? placed(text(state, state.data), location.hash.slice(1)) : text(state, state.data));
  state.follow = (found) => {
    const places = found === state.data && before() ? selected(state, PLACES) : {};
    if (found.attrs.text !== state.data.attrs.text || found.attrs.model !== state.data.attrs.model) state.first = {};
    state.data = found;
    followed = location.hash;
    for (const name of ASKED) delete state[name]; // of the address before
    Object.assign(state, start(found), read(found, alone ? "" : location.hash.slice(1) || found.state || ""), places);
    if (!state.live) for (const name of ASKED) delete state[name];
  };
  state.set = (changes) => {
    if (elsewhere()) state.follow(state.data);
    Object.assign(state, changes);
    if (!alone) {
      clearTimeout(asked);
      asked = setTimeout(save, 120);
    } // browsers refuse too many in a row
    change(state);
  };
  state.save = () => {
    clearTimeout(asked);
    if (asked) save();
  };
  state.follow(data);
  if (alone) return state;
  addEventListener("pagehide", state.save);
  addEventListener("hashchange", () => {
    if (elsewhere()) state.follow(state.data);
    change(state);
  });
  return state;
}

// What stands after #. Without `asked`, only what is selected: for a page that is saved.
export function text(state, data, asked = true) {
  const pairs = [...(asked ? ASKED : []), ...Object.keys(READ)]
    .filter((name) => state[name] !== "" && state[name] !== undefined && !(name === "head" && !data.heads))
    .map((name) => [name, WRITE[name] ? WRITE[name](state[name], data) : state[name]]);
  return String(new URLSearchParams(pairs));
}

// An address with the places of another.
function placed(address, other) {
  const found = new URLSearchParams(address),
    places = new URLSearchParams(other);
  for (const name of PLACES) places.has(name) ? found.set(name, places.get(name)) : found.delete(name);
  return String(found);
}

// What is chosen among these names.
export function selected(state, names = Object.keys(READ)) {
  return Object.fromEntries(
    names.filter((name) => state[name] !== "" && state[name] !== undefined).map((name) => [name, state[name]]),
  );
}

// The same for another sentence: choices stay, places do not.
export function moved(state, asked) {
  const kept = selected(
    state,
    Object.keys(READ).filter((name) => !PLACES.includes(name)),
  );
  const pairs = [...ASKED.map((name) => [name, asked[name] ?? ""]), ...Object.entries(kept)];
  return String(new URLSearchParams(pairs.filter(([, value]) => value !== "")));
}

/** The token a page opens on: the mask, else the last that stands for text and was measured. @param {Data} data */
export function opening({ tokens, rows, scene, causal }) {
  if (scene && !causal) {
    const first = Math.max(
      tokens.findIndex(({ special }) => special), // [CLS]
      0,
    );
    return (rows?.includes(first) ?? true) ? first : rows[0];
  }
  const mask = tokens.findIndex((token) => /^[[<]mask[\]>]$/i.test(token.text));
  if (mask >= 0 && (rows?.includes(mask) ?? true)) return mask;
  const places = rows ?? [...tokens.keys()];
  return places.findLast((place) => !tokens[place].special) ?? places.at(-1) ?? 0;
}

function start(data) {
  const token = opening(data);
  const empty = Object.fromEntries(Object.keys(READ).map((name) => [name, ""]));
  return { ...empty, layer: Math.max(data.layers.length - 1, 0), token, source: token, head: "mean" };
}

function read(data, hash) {
  const found = {};
  for (const [name, written] of new URLSearchParams(hash)) {
    const value = ASKED.includes(name) ? written : Object.hasOwn(READ, name) ? READ[name](written, data) : -1;
    if (value !== -1) found[name] = value;
  }
  return "token" in found ? { source: found.token, ...found } : found;
}

/**
 * What a view is drawn by: what is chosen, or what it was drawn by first. Something better that is ready later is
 * offered, and not put in its place while somebody reads.
 * @param {State} state @param {"map" | "show" | "field"} name @param {string[][]} options  the best first
 */
export function held(state, name, options) {
  const wanted = state[name],
    known = (key) => options.some(([one]) => one === key);
  if (wanted && known(wanted)) return { key: wanted, better: null };
  const first = known(state.first?.[name]) ? state.first[name] : options[0]?.[0];
  state.first = { ...state.first, [name]: first };
  return { key: first, better: first === options[0]?.[0] ? null : options[0] };
}

/**
 * The key that is chosen if it is there, the first there is otherwise.
 * @param {string} key
 * @param {string[][]} options
 */
export function chosen(key, options) {
  return options.some(([name]) => name === key) ? key : options[0]?.[0];
}
