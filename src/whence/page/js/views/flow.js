// Flow: tokens are columns, layers rows, the input at the bottom; links show what rises from one layer to the next.

import { called, layersOf, sinceInput, title, wording } from "../core/data.js";
import { announce, h, hush, once, select, slider, tell } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { LONG, NARROW } from "../core/grid.js";
import { automatic, largest, network, rowOf } from "./network.js";
import { paint, place, vector } from "./river.js";
import { number, percent } from "../core/scale.js";
import { chosen } from "../core/state.js";

const STEPS = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const MODES = [
  ["into", "into the chosen token"],
  ["all", "between all tokens"],
];

export function perHead(data, state) {
  return data.variables[chosen(state.flow, options(data))].dims.includes("head");
}

export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, { name: "flow" });
  const name = chosen(state.flow, options(data)),
    mode = chosen(state.links, MODES);
  select(choices, "flow", "By", options(data), name, (value) => state.set({ flow: value, least: "" }));
  select(choices, "links", "Links", MODES, mode, (value) => state.set({ links: value, least: "" }));
  const net = network(data, name, state, mode);
  const least = state.least === "" ? automatic(net, data.tokens.length, mode) : state.least;
  slider(choices, "least", "At least", least, percent, (value) => state.set({ least: value }));
  const kept = net.links.filter((link) => Math.abs(link.strength) >= least);
  say(finding(data, net, name, state), subtitle(data, net, name, mode, kept));

  const room = Math.max(body.clientWidth, 240),
    compact = data.tokens.length > LONG || room / data.tokens.length < NARROW + 8;
  const parts = once(body, () => ({
    whole: frame(body),
    caption: body.appendChild(h("p", { class: "closer" })),
    close: frame(body),
  }));
  const around = compact ? near(data, state, room) : null;
  const picture = { net, kept, data, state, palette, room, mode };
  show(parts.whole, { ...picture, columns: [0, data.tokens.length], compact, around }, name);
  parts.close.element.hidden = parts.caption.hidden = !compact;
  if (compact) {
    parts.caption.textContent = `A closer look at tokens ${around[0]} to ${around[1] - 1} of ${data.tokens.length}`;
    show(parts.close, { ...picture, columns: around, compact: false, around: null }, name);
  }
  held.palette = palette;
  held.pictures = () => [vector({ ...picture, columns: [0, data.tokens.length], compact, around: null })];
  held.table = () => ({
    header: [
      "map",
      "from_layer",
      "source",
      "source_token",
      "to_layer",
      "target",
      "target_token",
      "share",
      "share_of_the_flow",
    ],
    rows: [...kept]
      .reverse()
      .map(({ from, source, to, target, weight, strength }) => [
        name,
        net.rows[from],
        source,
        data.tokens[source].text,
        net.rows[to],
        target,
        data.tokens[target].text,
        weight,
        strength,
      ]),
  });
}

// Maps that every layer has, else a path would end where one is missing.
function options(data) {
  const through = data.maps.filter((name) => !sinceInput(data, name)),
    direct = data.maps.filter((name) => sinceInput(data, name)); // layer after layer first
  const whole = [...through, ...data.head_maps, ...direct].filter(
    (name) => layersOf(data, name).length === data.layers.length,
  );
  return whole.map((name) => [name, title(data, name)]);
}

function near(data, state, room) {
  const most = Math.min(Math.max(Math.floor(room / 34), 6), 32),
    count = data.tokens.length;
  const first = Math.min(Math.max(state.token - Math.floor(most / 2), 0), Math.max(count - most, 0));
  return [first, Math.min(first + most, count)];
}

function finding(data, net, name, state) {
  const format = data.variables[name].signed ? number : percent;
  const parts = largest(net.input, 3).map(
    (source) => `${source === state.token ? "itself" : `“${called(data, source)}”`} (${format(net.input[source])})`,
  );
  const list = parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts.join("") || "nothing";
  return `“${called(data, state.token)}” in layer ${data.layers[state.layer]} goes back to ${list}`;
}

function subtitle(data, net, name, mode, kept) {
  const heads = data.variables[name].dims.includes("head")
    ? net.head === "mean"
      ? `, mean of ${data.heads} heads`
      : `, head ${net.head}`
    : "";
  const steps = wording(data, name).paths;
  const shown =
    mode === "into"
      ? "width: share of the flow into the chosen token"
      : `width: how much a row ${wording(data, name).verb} ${wording(data, name).to} a source`;
  return `Links by ${title(data, name)}${heads}; ${shown}. ${steps}. ${kept.length.toLocaleString("en")} of ${net.links.length.toLocaleString("en")} links are drawn.`;
}

function frame(body) {
  const base = h("canvas", {}),
    over = h("canvas", { class: "over" });
  const element = body.appendChild(
    h(
      "div",
      { class: "grid flow", tabindex: "0", role: "application", "aria-roledescription": "flow diagram" },
      base,
      over,
    ),
  );
  return { element, base, over };
}

function show({ element, base, over }, picture, name) {
  const { data, state, net } = picture,
    at = place(picture);
  const format = data.variables[name].signed ? number : percent;
  const describe = ({ row, token }) => {
    const links = net.links
      .filter((link) => link.to === row && link.target === token)
      .sort((one, other) => other.weight - one.weight)
      .slice(0, 3);
    const where = row === 0 ? "input" : `layer ${net.rows[row]}`;
    return [
      `${called(data, token)} (${token}), ${where}`,
      ...links.map(
        (link) => `${format(link.weight)} ${wording(data, name).to} ${called(data, link.source)} (${link.source})`,
      ),
    ].join("\n");
  };
  paint(base, picture, at);
  paint(over, { ...picture, hovered: null }, at, true);
  const here = { row: rowOf(net, state.layer), token: state.token };
  element.setAttribute("aria-label", `Flow, layers by tokens. Arrow keys move. ${describe(here)}`);
  let shown = "";
  const locate = (event) => {
    const box = base.getBoundingClientRect(),
      shrunk = at.width / box.width;
    return at.find((event.clientX - box.left) * shrunk, (event.clientY - box.top) * shrunk);
  };
  element.onpointermove = (event) => {
    const node = locate(event),
      key = node ? `${node.row} ${node.token}` : "";
    if (key !== shown) paint(over, { ...picture, hovered: node }, at, true);
    shown = key;
    node ? tell(event, describe(node)) : hush();
  };
  element.onpointerleave = () => {
    paint(over, { ...picture, hovered: null }, at, true);
    shown = "";
    hush();
  };
  const pick = ({ row, token }) =>
    state.set({ token, source: token, layer: row === 0 ? state.layer : data.layers.indexOf(net.rows[row]) });
  element.onclick = (event) => {
    const node = locate(event);
    if (node) pick(node);
  };
  element.onkeydown = (event) => {
    const step = STEPS[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const token = Math.min(Math.max(state.token + step[1], 0), data.tokens.length - 1),
      layer = Math.min(Math.max(state.layer + step[0], 0), data.layers.length - 1);
    state.set({ token, source: token, layer });
    announce(`${called(data, token)}, layer ${data.layers[layer]}`);
  };
}
