// The frame every panel shares: a title that says the finding, what was measured, choices, pictures, ways out.

import { h, once } from "./dom.js";
import { buttons } from "./leave.js";

export function figure(container, { name }) {
  return once(container, () => {
    const held = { pictures: () => [], table: () => ({ header: [], rows: [] }), palette: {}, title: "", subtitle: "" };
    const heading = h("h2", {}), below = h("p", { class: "subtitle" });
    const choices = h("div", { class: "choices" }), body = h("div", { class: "pictures" });
    const out = buttons({
      pictures: () => held.pictures(),
      table: () => held.table(),
      words: () => ({ name: `whence-${name}`, title: held.title, subtitle: held.subtitle }),
      palette: () => held.palette,
    });
    container.append(heading, below, choices, body, out.row, out.shown);
    const say = (title, subtitle) => {
      Object.assign(held, { title, subtitle });
      heading.textContent = title;
      below.textContent = subtitle;
      out.fold();
    };
    return { held, say, choices, body, leave: out.row };
  });
}
