// The top of the page: what was found, on which model, and the sentence, shaded by where the selected token came from.

import { called, said, shares, title, wording } from "../core/data.js";
import { h, hush, once, tell } from "../core/dom.js";
import { inkOn, limit, percent, scale } from "../core/scale.js";
import { sources } from "./whence.js";

export function render(container, data, state, palette) {
  const parts = once(container, () => build(container, data, state));
  parts.finding.textContent = data.finding;
  parts.about.textContent = about(data);
  const { token, layer } = state;
  const name = sources(data, state);
  const values = name ? shares(data, name, layer, token) : null;
  const shade = values && scale(palette, limit(values), data.variables[name].signed);
  for (const [place, chip] of parts.chips.entries()) {
    const value = values ? values[place] : NaN;
    const there = Number.isFinite(value);
    chip.style.background = there ? shade.color(value) : "";
    chip.style.color = there ? inkOn(shade.rgb(value)) : "";
    chip.setAttribute("aria-pressed", String(place === token));
    chip.tabIndex = place === token ? 0 : -1;
    chip.onpointermove = (event) =>
      tell(event, `${called(data, place)} (${place})${there ? `: ${percent(value)}` : ""}`);
  }
  parts.key.textContent = !name
    ? ""
    : `Shade: ${shading(data, name, token)} layer ${data.layers[layer]} (${title(data, name)}). Choose another token by clicking or with the arrow keys.`;
}

function shading(data, name, token) {
  const shown = `“${called(data, token)}”`;
  return said(wording(data, name).shade, { token: shown });
}

function build(container, data, state) {
  const chips = data.tokens.map((token, place) =>
    h(
      "button",
      {
        type: "button",
        class: `token${token.special ? " special" : ""}`,
        dir: "auto",
        "aria-label": `token ${place}, ${token.shown}`,
        onclick: () => state.set({ token: place, source: place }),
        onpointerleave: hush,
      },
      token.shown.length > 60 ? `${token.shown.slice(0, 59)}…` : token.shown,
    ),
  );
  const row = h(
    "div",
    {
      class: "sentence",
      role: "toolbar",
      "aria-label": "The sentence, token by token",
      onkeydown: (event) => step(event, data, state, chips),
    },
    ...chips,
  );
  const key = h("p", { class: "subtitle" });
  const finding = h("h1", {}),
    about = h("p", { class: "subtitle" });
  container.append(finding, about, row, key);
  return { chips, key, finding, about };
}

function step(event, data, state, chips) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const token = Math.min(Math.max(state.token + by, 0), data.tokens.length - 1);
  state.set({ token, source: token });
  chips[token].focus();
}

function about(data) {
  const special = data.tokens.filter((token) => token.special).length;
  const counts = [
    `${data.attrs.cut_from ? `the first ${data.tokens.length} of ${data.attrs.cut_from}` : data.tokens.length} tokens${special ? ` (${special} special)` : ""}`,
    `${data.layers.length} layers`,
    data.heads ? `${data.heads} heads` : "",
    data.causal ? "reads left to right" : "",
  ]
    .filter(Boolean)
    .join(", ");
  const model = data.attrs.model
    ? `${data.attrs.model}${data.attrs.revision ? ` @ ${data.attrs.revision.slice(0, 12)}` : ""}`
    : "";
  return [model, counts].filter(Boolean).join(" · ");
}
