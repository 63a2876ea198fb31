// @ts-check
// Which token of one sentence is which of another: the longest run of equal ones, and replacements of equal length.

const SPECIAL = { "<s>": "[cls]", "</s>": "[sep]", "<|endoftext|>": "[cls]", "<mask>": "[mask]" };

/**
 * For each token of one, its place in the other, or -1.
 * @param {{ text: string }[]} one @param {{ text: string }[]} other
 */
export function aligned(one, other) {
  const left = one.map(plain),
    right = other.map(plain),
    found = new Int32Array(left.length).fill(-1);
  for (const [place, partner] of common(left, right)) found[place] = partner;
  for (let start = 0; start < found.length; start++) {
    if (found[start] >= 0) continue;
    let end = start;
    while (end < found.length && found[end] < 0) end++;
    const first = start ? found[start - 1] + 1 : 0,
      last = end < found.length ? found[end] : right.length;
    if (start === 0 || found[start - 1] >= 0)
      if (last - first === end - start)
        for (let place = start; place < end; place++) found[place] = first + place - start;
    start = end;
  }
  return found;
}

function plain({ text }) {
  const bare = text.toLowerCase().replace(/^(##|▁|Ġ)/, "");
  return SPECIAL[bare] ?? bare;
}

// The longest common subsequence, as pairs of places.
function common(left, right) {
  const wide = right.length + 1,
    length = new Uint16Array((left.length + 1) * wide);
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      length[i * wide + j] =
        left[i] === right[j]
          ? length[(i + 1) * wide + j + 1] + 1
          : Math.max(length[(i + 1) * wide + j], length[i * wide + j + 1]);
  const pairs = [];
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) pairs.push([i++, j++]);
    else if (length[(i + 1) * wide + j] >= length[i * wide + j + 1]) i++;
    else j++;
  }
  return pairs;
}
