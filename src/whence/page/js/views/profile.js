// Means by layer, one line per measure; layers are rows, as in the grid beside it.

import { SANS, fitted, svg } from "../core/dom.js";

const LEFT = 36,
  WIDE = 220,
  TOP = 18,
  KEY = 16;

// lines: [{ key, label, group, by: [mean of each layer], color, dashed }], those of a group one after the other
export function draw({ lines, layers, tall, chosen, emphasis }, palette) {
  const down = layers.length * tall,
    width = LEFT + WIDE + 60,
    groups = new Set(lines.map((line) => line.group));
  const height = TOP + down + 26 + (lines.length + groups.size) * KEY + 6;
  let below = TOP + down + 18;
  const x = (share) => LEFT + share * WIDE,
    y = (layer) => TOP + down - (layer + 0.5) * tall;
  const picture = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "font-family": SANS,
    "font-size": 11,
    "aria-label": `Mean by layer: ${lines.map((line) => line.label).join("; ")}`,
  });
  picture.append(svg("rect", { x: LEFT, y: y(chosen) - tall / 2, width: WIDE, height: tall, fill: palette.soft }));
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    picture.append(svg("line", { x1: x(share), x2: x(share), y1: TOP, y2: TOP + down, stroke: palette.line }));
    if (share * 2 === Math.round(share * 2))
      picture.append(
        svg(
          "text",
          { x: x(share), y: TOP + down + 14, "text-anchor": "middle", fill: palette.muted },
          `${share * 100}\u00a0%`,
        ),
      );
  }
  picture.append(
    svg("text", { x: LEFT - 6, y: 12, "text-anchor": "end", fill: palette.muted }, "layer"),
    svg("text", { x: LEFT, y: 12, fill: palette.muted }, "mean over tokens"),
  );
  const every = Math.ceil(13 / tall);
  for (const [layer, name] of layers.entries())
    if (layer % every === 0)
      picture.append(
        svg("text", { x: LEFT - 6, y: y(layer) + 4, "text-anchor": "end", fill: palette.muted }, String(name)),
      );
  for (const [place, line] of lines.entries()) {
    const strong = line.key === emphasis;
    const look = {
      stroke: line.color,
      fill: "none",
      "stroke-width": strong ? 3 : 1.75,
      "stroke-dasharray": line.dashed ? "5 3" : null,
      "stroke-linejoin": "round",
    };
    const points = line.by.map((share, layer) => [share, layer]).filter(([share]) => Number.isFinite(share));
    picture.append(
      svg("polyline", { ...look, points: points.map(([share, layer]) => `${x(share)},${y(layer)}`).join(" ") }),
    );
    for (const [share, layer] of points)
      picture.append(svg("circle", { cx: x(share), cy: y(layer), r: strong ? 3 : 2, fill: line.color }));
    if (line.group !== lines[place - 1]?.group)
      picture.append(svg("text", { x: LEFT, y: (below += KEY), fill: palette.muted }, line.group));
    below += KEY;
    picture.append(svg("line", { x1: LEFT, x2: LEFT + 18, y1: below - 4, y2: below - 4, ...look }));
    picture.append(
      svg(
        "text",
        { x: LEFT + 24, y: below, fill: strong ? palette.ink : palette.muted, "font-weight": strong ? 600 : null },
        fitted(line.label, width - LEFT - 44, 11, SANS),
      ),
    );
  }
  return picture;
}
