/**
 * What a canonical name of each kind may hold, as the service has it (spec section 4).
 *
 * @module
 */

/**
 * The port of a scheme where none is stated; stating it is another spelling.
 *
 * @type {ReadonlyMap<string, string>}
 */
export const PORTS = new Map([
  ["http", "80"],
  ["https", "443"],
  ["ws", "80"],
  ["wss", "443"],
  ["ftp", "21"],
]);

const encoder = new TextEncoder();
const VISIBLE_ASCII = /^[\x20-\x7e]*$/;
// Nobody can see them: controls, formats, surrogates, private use, separators, and what a font leaves out.
const INVISIBLE = new RegExp(
  String.raw`[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164` +
    String.raw`\ufe00-\ufe0f\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]`,
  "u",
);
const SPACE = /\p{Zs}/u;
const OTHER_SPACE = /(?! )\p{Zs}/u;

/**
 * Whether `text` holds a character that nobody can see, or white space (other than U+0020).
 *
 * @param {string} text
 * @param {{ mayHoldSpaces?: boolean }} [options]
 */
export function hasOddCharacter(text, { mayHoldSpaces = false } = {}) {
  if (VISIBLE_ASCII.test(text)) return !mayHoldSpaces && text.includes(" ");
  return INVISIBLE.test(text) || (mayHoldSpaces ? OTHER_SPACE : SPACE).test(text);
}

/** @param {string} text */
export function utf8Length(text) {
  return encoder.encode(text).length;
}

// What a path must not hold to be in lexical normal form and POSIX: controls, `\`, empty and dot components,
// a slash at the end, drives and streams; then device names, and upper-case 8.3 short names.
const NOT_IN_A_PATH =
  /[\x00-\x1f\x7f-\x9f\\]|\p{Surrogate}|\/\/|\/\.{1,2}(?:\/|$)|.\/$|:\$|\/[A-Za-z]:(?:\/|$)/u;
const DEVICE = new RegExp(
  String.raw`/(?:con|prn|aux|nul|con[i\u0130\u0131]n\$|conout\$|(?:com|lpt)[1-9\u00b9\u00b2\u00b3])` +
    String.raw`[ .]*(?::[^/]*)?(?:/|$)`,
  "iu",
);
const SHORT_NAME =
  /\/(?=[^/.a-z]{3,8}(?:[./]|$))[^/.~:*?<>|" a-z]{1,6}~[0-9]{1,6}(?:\.[^/.~:*?<>|" a-z]{0,3})?(?=\/|$)/u;
// Links of a process to other files: what they lead to depends on who asks.
const PROCESS_ALIAS = new RegExp(
  "^(?:/proc/(?:self|thread-self|[0-9]+)/(?:root|cwd|fd|exe|task|map_files)" +
    "|/dev/(?:fd|std(?:in|out|err)))(?:/|$)",
);

/**
 * Whether `path` is absolute, in lexical normal form, and of lengths that a file system takes.
 *
 * @param {string} path
 */
export function isFilePath(path) {
  if (!path.startsWith("/") || NOT_IN_A_PATH.test(path) || DEVICE.test(path) || SHORT_NAME.test(path))
    return false;
  if (PROCESS_ALIAS.test(path)) return false;
  const components = path.split("/").slice(1);
  return (
    utf8Length(path) <= 4096 &&
    components.length <= 256 &&
    components.every((part) => utf8Length(part) <= 255)
  );
}

const NEEDS_CARE = /[%;]|\/\./;
const DOT_SEGMENT = /\/(?:\.|%2[Ee]){1,2}(?:\/|$)/;
/** @type {readonly (readonly [RegExp, string])[]} */
const OVERLONG = [
  [/\xc0\xae/g, "."],
  [/\xc0\xaf/g, "/"],
  [/\xc1\x9c/g, "\\"],
];
const MAX_DECODINGS = 8;

/**
 * Whether a server could find `.` or `..` in the path of a url, decoding it once or more often.
 *
 * @param {string} path ASCII
 */
export function decodesToDots(path) {
  if (!NEEDS_CARE.test(path)) return false;
  if (DOT_SEGMENT.test(path)) return true;
  let bytes = path; // one character for each byte
  for (let round = 0; round < MAX_DECODINGS; round += 1) {
    const plain = OVERLONG.reduce((text, [overlong, char]) => text.replace(overlong, char), bytes);
    const parts = plain.replaceAll("\\", "/").split("/");
    if (parts.some((part) => [".", ".."].includes(part.split(";", 1)[0] ?? ""))) return true;
    const decoded = bytes.replace(/%([0-9A-Fa-f]{2})/g, (_, hex) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    if (decoded === bytes) return false;
    bytes = decoded;
  }
  return true;
}

// git-check-ref-format(1), rules 1 to 10.
const NOT_IN_A_REF = /[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\//;
const PSEUDO_REF = /^(?:@|[A-Z_]*HEAD)$/;

/**
 * Whether `name` is the one name of a branch, or `refs/kind/name` for what is none.
 *
 * @param {string} name
 */
export function isRef(name) {
  const parts = name.split("/");
  return !(
    name === "" ||
    PSEUDO_REF.test(name) ||
    ["-", "heads/", "tags/"].some((start) => name.startsWith(start)) ||
    name.endsWith(".") ||
    NOT_IN_A_REF.test(name) ||
    parts.some((part) => part === "" || part.startsWith(".") || part.endsWith(".lock")) ||
    hasOddCharacter(name) ||
    (name.startsWith("refs/") && parts.length < 3) ||
    (name.startsWith("refs/heads/") &&
      !["refs", "heads", "tags"].some((start) => parts[2]?.startsWith(start)))
  );
}

const IBAN = /^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$/;

/**
 * Whether `text` is an IBAN in electronic form with right check digits (ISO 13616, ISO 7064).
 *
 * @param {string} text
 */
export function isIban(text) {
  if (!IBAN.test(text) || Number(text.slice(2, 4)) < 2 || Number(text.slice(2, 4)) > 98) return false;
  const digits = Array.from(text.slice(4) + text.slice(0, 4), (char) => Number.parseInt(char, 36)).join("");
  return BigInt(digits) % 97n === 1n;
}
