/**
 * Labels of internationalized names: Punycode (RFC 3492), and the rule for those that are written from right
 * to left (RFC 5893, section 2), which URL parsers leave out.
 *
 * @module
 */

const BASE = 36;
const INITIAL_BIAS = 72;
const INITIAL_CODE_POINT = 128;
const MAX_CODE_POINT = 0x10ffff;

/**
 * The text of what stands behind `xn--`, lower case; `null` where it is no Punycode.
 *
 * @param {string} encoded
 * @returns {string | null}
 */
export function fromPunycode(encoded) {
  const hyphen = encoded.lastIndexOf("-");
  const found = Array.from(hyphen > 0 ? encoded.slice(0, hyphen) : "", (char) => char.charCodeAt(0));
  let codePoint = INITIAL_CODE_POINT;
  let bias = INITIAL_BIAS;
  let index = 0;
  for (let at = hyphen > 0 ? hyphen + 1 : 0; at < encoded.length;) {
    const before = index;
    for (let weight = 1, k = BASE; ; k += BASE) {
      const digit = digitOf(encoded.charCodeAt(at++));
      if (digit === null) return null;
      index += digit * weight;
      if (index > Number.MAX_SAFE_INTEGER) return null;
      const threshold = Math.min(Math.max(k - bias, 1), 26);
      if (digit < threshold) break;
      weight *= BASE - threshold;
    }
    const length = found.length + 1;
    bias = adapted(index - before, length, before === 0);
    codePoint += Math.floor(index / length);
    if (codePoint > MAX_CODE_POINT) return null;
    index %= length;
    found.splice(index++, 0, codePoint);
  }
  return String.fromCodePoint(...found);
}

/**
 * @param {number} code of a character; NaN behind the end
 * @returns {number | null}
 */
function digitOf(code) {
  if (code >= 0x61 && code <= 0x7a) return code - 0x61;
  return code >= 0x30 && code <= 0x39 ? code - 0x30 + 26 : null;
}

/**
 * @param {number} delta
 * @param {number} length
 * @param {boolean} isFirst
 */
function adapted(delta, length, isFirst) {
  let rest = Math.floor(delta / (isFirst ? 700 : 2));
  rest += Math.floor(rest / length);
  let k = 0;
  for (; rest > 455; k += BASE) rest = Math.floor(rest / 35);
  return k + Math.floor((36 * rest) / (rest + 38));
}

// Classes of UAX #9 by blocks and categories, since this language has no property for them. What a block has
// besides letters and marks (signs, punctuation) is counted among its letters, which refuses more and never
// less.
const MARK = /[\p{Mn}\p{Me}]/u;
const ARABIC_NUMBER =
  /[\u0600-\u0605\u0660-\u0669\u066b\u066c\u06dd\u0890\u0891\u08e2\u{10d30}-\u{10d39}\u{10e60}-\u{10e7e}]/u;
const EUROPEAN_NUMBER = /[0-9\u06f0-\u06f9]/u;
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const NEUTRAL = /[-_]/;

/**
 * Whether a label has no letter that is written from right to left, or is one of those alone.
 *
 * @param {string} label
 */
export function hasOneDirection(label) {
  const classes = Array.from(label, classOf);
  if (!classes.includes("R") && !classes.includes("AN")) return true;
  const last = classes.findLast((one) => one !== "NSM");
  return (
    classes[0] === "R" &&
    !classes.includes("other") &&
    (last === "R" || last === "AN" || last === "EN") &&
    !(classes.includes("AN") && classes.includes("EN"))
  );
}

/** @param {string} char */
function classOf(char) {
  if (MARK.test(char)) return "NSM";
  if (EUROPEAN_NUMBER.test(char)) return "EN";
  if (ARABIC_NUMBER.test(char)) return "AN";
  if (RIGHT_TO_LEFT.test(char)) return "R";
  return NEUTRAL.test(char) ? "neutral" : "other";
}
