// What is selected, kept in the address after # so that a link brings it back.

const READ = {
  layer: (text, data) => data.layers.indexOf(Number(text)),
  token: (text, data) => (Number(text) in data.tokens ? Number(text) : -1),
  source: (text, data) => (Number(text) in data.tokens ? Number(text) : -1),
  head: (text, data) => (text === "mean" ? text : Number(text) < data.heads && /^\d+$/.test(text) ? Number(text) : -1),
  show: String, map: String, maps: String, tiles: String,
  theme: (text) => (["light", "dark"].includes(text) ? text : -1),
};
const WRITE = { layer: (value, data) => data.layers[value] };

// The same selection for every view; `change` is called after each `set`.
export function create(data, change) {
  const state = { ...start(data), ...read(data) };
  state.set = (changes) => {
    Object.assign(state, changes);
    write(state, data);
    change(state);
  };
  addEventListener("hashchange", () => {
    Object.assign(state, start(data), read(data));
    change(state);
  });
  return state;
}

function start(data) {
  const mask = data.tokens.findIndex((token) => /^[[<]mask[\]>]$/i.test(token.text));
  const ordinary = data.tokens.findIndex((token, place) => !token.special && place >= (data.tokens.length - 1) / 2);
  const token = mask >= 0 ? mask : Math.max(ordinary, 0);
  return { layer: Math.max(data.layers.length - 1, 0), token, source: token, head: "mean", show: "", map: "", maps: "", tiles: "", theme: "" };
}

function read(data) {
  const found = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    const value = Object.hasOwn(READ, name) ? READ[name](text, data) : -1;
    if (value !== -1) found[name] = value;
  }
  return "token" in found ? { source: found.token, ...found } : found;
}

function write(state, data) {
  const pairs = Object.keys(READ)
    .filter((name) => state[name] !== "" && state[name] !== undefined)
    .map((name) => [name, WRITE[name] ? WRITE[name](state[name], data) : state[name]]);
  history.replaceState(null, "", `#${new URLSearchParams(pairs)}`);
}

// The key that is chosen if it is there, the first there is otherwise.
export function chosen(key, options) {
  return options.some(([name]) => name === key) ? key : options[0]?.[0];
}
