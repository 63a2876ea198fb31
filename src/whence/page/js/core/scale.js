// @ts-check
// Numbers to colours and to words. Amounts: paper to deep blue. Signed: orange, paper, blue, zero in the middle.

/**
 * @typedef {{ paper: string, ink: string, muted: string, special: string, line: string, soft: string, link: string,
 *   source: string, own: string, against: string, constant: string,
 *   sequential: string[], diverging: string[], measures: Record<string, string> }} Palette
 * @typedef {{ limit: number, signed: boolean, rgb(value: number): number[], color(value: number): string }} Scale
 */

/**
 * @param {Palette} palette @param {number} limit @param {boolean} signed @returns {Scale}
 */
export function scale(palette, limit, signed) {
  const stops = (signed ? palette.diverging : palette.sequential).map(parts);
  const rgb = (value) => between(stops, signed ? (value / limit + 1) / 2 : value / limit);
  return { limit, signed, rgb, color: (value) => css(rgb(value)) };
}

/**
 * The end of the scale: the 99th percentile, rounded up to a number people say; of very many values, of every so many.
 * @param {Float32Array} values @returns {number}
 */
export function limit(values) {
  if (!limits.has(values)) {
    const step = Math.ceil(values.length / SAMPLE) | 1,
      some = step > 1 ? values.filter((_, place) => place % step === 0) : values,
      sizes = Float32Array.from(some, Math.abs).filter(Number.isFinite).sort();
    limits.set(values, nice(sizes[Math.min(sizes.length - 1, Math.ceil(sizes.length * 0.99))]) || 1);
  }
  return limits.get(values);
}
const SAMPLE = 100_000; // values that are sorted within a frame
const limits = new WeakMap();

export function nice(value) {
  if (!(value > 0)) return 0;
  const ten = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * ten >= value * 0.9999) * ten;
}

/** Black or white, whichever is read better on this colour. @param {number[]} color */
export function inkOn([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((v) =>
    v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
  );
  return (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff";
}

// "27 %", with one decimal where a whole per cent would hide it.
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  const digits = Math.abs(value) >= 9.95 || value === 0 ? 0 : Math.abs(value) >= 0.095 ? 1 : 2;
  return `${value.toFixed(digits).replace("-", "−")}\u00a0%`;
}

export function number(value) {
  if (!Number.isFinite(value)) return "–";
  return value === 0 ? "0" : String(Number(value.toPrecision(3))).replace("-", "−");
}

function between(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return stops[below].map((low, channel) => Math.round(low + (stops[below + 1][channel] - low) * (place - below)));
}

function parts(color) {
  return [1, 3, 5].map((place) => parseInt(color.slice(place, place + 2), 16));
}

/** @param {number[]} color */
function css([red, green, blue]) {
  return `#${[red, green, blue].map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
