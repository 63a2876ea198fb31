// What is selected, always in reach: layer, token, head, light or dark.

import { h, once, select } from "../core/dom.js";

// `perHead` says whether what is drawn below depends on the head.
export function render(container, data, state, perHead) {
  const parts = once(container, () => {
    const choices = h("div", { class: "choices" });
    const theme = h("button", { type: "button", class: "theme" });
    container.append(choices, theme);
    return { choices, theme };
  });
  const tokens = data.tokens.map((token, place) => [String(place), `${place}  ${token.shown.slice(0, 40)}`]);
  const layers = data.layers.map((layer, place) => [String(place), String(layer)]).reverse();
  const heads = [
    ["mean", "mean of all"],
    ...Array.from({ length: data.heads }, (_, head) => [String(head), String(head)]),
  ];
  select(parts.choices, "token", "Token", tokens, state.token, (value) =>
    state.set({ token: Number(value), source: Number(value) }),
  );
  select(parts.choices, "layer", "Layer", layers, state.layer, (value) => state.set({ layer: Number(value) }));
  if (data.head_maps.length)
    select(
      parts.choices,
      "head",
      "Head",
      heads,
      state.head,
      (value) => state.set({ head: value === "mean" ? value : Number(value) }),
      !perHead,
    );
  const other = state.shade === "dark" ? "light" : "dark";
  parts.theme.textContent = other === "dark" ? "Dark" : "Light";
  parts.theme.setAttribute("aria-label", `Switch to ${other} colours`);
  parts.theme.onclick = () => state.set({ theme: other });
}
