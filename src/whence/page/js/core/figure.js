// The frame every panel shares: a title that says the finding, what was measured, choices, pictures, ways out.

import { h, once } from "./dom.js";
import { buttons } from "./leave.js";

export function figure(container, { name }) {
  return once(container, () => {
    const held = {
      pictures: () => [],
      table: () => ({ header: [], rows: [] }),
      also: null,
      palette: {},
      title: "",
      subtitle: "",
    };
    const heading = h("h2", {}),
      below = h("p", { class: "subtitle" });
    const choices = h("div", { class: "choices" }),
      body = h("div", { class: "pictures" });
    const out = buttons({
      pictures: () => held.pictures(),
      table: () => held.table(),
      also: () => held.also,
      words: () => ({ name: `whence-${name}`, title: held.title, subtitle: held.subtitle }),
      palette: () => held.palette,
    });
    container.append(heading, below, choices, body, out.row, out.shown);
    // `also`: a second table, { name, table }, for what is drawn beside the first
    const say = (title, subtitle, also = null) => {
      Object.assign(held, { title, subtitle, also });
      heading.textContent = title;
      below.textContent = subtitle;
      out.fresh();
    };
    return { held, say, choices, body, leave: out.row };
  });
}
