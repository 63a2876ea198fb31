// @ts-check
// The flow view inside a notebook: its own selection, nothing of the page around it is touched.

import * as bar from "./views/bar.js";
import { open } from "./core/data.js";
import { h } from "./core/dom.js";
import * as flow from "./views/flow.js";
import { create } from "./core/state.js";

export async function render({ model, el }) {
  const data = await open(model.get("payload"));
  const choices = h("div", { class: "selection" }),
    panel = h("div", {});
  const root = el.appendChild(
    h("div", { class: "whence-widget", role: "group", "aria-label": "Flow" }, choices, panel),
  );
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let asked = 0;
  const draw = () => {
    asked = 0;
    const notebook = document.body.dataset.jpThemeLight; // Jupyter has a theme of its own
    state.shade = state.theme || ((notebook ? notebook === "false" : dark.matches) ? "dark" : "light");
    root.dataset.theme = state.shade;
    bar.render(choices, data, state, flow.perHead(data, state));
    flow.render(panel, data, state, data.palette[state.shade]);
  };
  const soon = () => {
    asked ||= requestAnimationFrame(draw);
  };
  const state = create(data, soon, true);
  dark.addEventListener("change", soon);
  const sized = new ResizeObserver(soon);
  sized.observe(el);
  draw();
  return () => {
    sized.disconnect();
    dark.removeEventListener("change", soon);
  };
}
