/**
 * JSON with one meaning for every text (RFC 8259, restricted as I-JSON, RFC 7493): duplicate names, integer
 * literals beyond ±(2^53−1), numbers that overflow a double, lone surrogates, invalid UTF-8, too deep nesting
 * and too many values are refused. `JSON.parse` takes all of them, and rounds.
 *
 * @module
 */

/** What the token profile and the service allow of one text. */
export const MAX_DEPTH = 64;
export const MAX_VALUES = 10_000;

/** The text is not JSON, or readers could take it differently. Says why, without echoing it. */
export class NotStrictJson extends Error {
  name = "NotStrictJson";
}

/**
 * A whole number that was written with a fraction or an exponent (`5.0`, `1e3`): a number, and no integer.
 * Only where it is asked for (`keepFractions`): tokens know one spelling of a date.
 */
export class Fraction {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
    Object.freeze(this);
  }
}

/**
 * @typedef {object} Limits
 * @property {number} [maxDepth]
 * @property {number} [maxValues] scalars, arrays and objects; names are not counted
 * @property {boolean} [keepFractions] whole numbers that are not written as integers become a `Fraction`
 */

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * The value of UTF-8 `data`, or of a text. Bounding its size is the caller's.
 *
 * @param {Uint8Array | string} data
 * @param {Limits} [limits]
 * @returns {any}
 * @throws {NotStrictJson}
 */
export function parseStrict(data, limits = {}) {
  let text;
  if (typeof data === "string") {
    text = data;
  } else {
    try {
      text = decoder.decode(data);
    } catch {
      throw new NotStrictJson("the text is not valid UTF-8");
    }
  }
  return new Parser(text, limits).whole();
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const CHARACTERS = /[^"\\\u0000-\u001f]*/y;
const HEX = /[0-9a-fA-F]{4}/y;
/** @type {Readonly<Record<string, string>>} */
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
/** @type {readonly (readonly [string, boolean | null])[]} */
const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
];

class Parser {
  /**
   * @param {string} text
   * @param {Limits} limits
   */
  constructor(text, { maxDepth = MAX_DEPTH, maxValues = MAX_VALUES, keepFractions = false }) {
    this.text = text;
    this.at = 0;
    this.values = 0;
    this.maxDepth = maxDepth;
    this.maxValues = maxValues;
    this.keepFractions = keepFractions;
  }

  whole() {
    this.skipSpace();
    const value = this.value(1);
    this.skipSpace();
    if (this.at !== this.text.length)
      throw new NotStrictJson("the text is not JSON: it goes on after its value");
    return value;
  }

  /**
   * @param {number} depth
   * @returns {any}
   */
  value(depth) {
    this.values += 1;
    if (this.values > this.maxValues) throw new NotStrictJson(`the text has over ${this.maxValues} values`);
    const first = this.text[this.at];
    if (first === "{" || first === "[") {
      if (depth > this.maxDepth) throw new NotStrictJson(`nesting is over ${this.maxDepth} levels`);
      this.at += 1;
      return first === "{" ? this.object(depth) : this.array(depth);
    }
    if (first === '"') return this.string();
    for (const [word, meaning] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return meaning;
      }
    }
    return this.number();
  }

  /** @param {number} depth */
  object(depth) {
    /** @type {Record<string, unknown>} */
    const members = {};
    this.skipSpace();
    if (this.takes("}")) return members;
    do {
      this.skipSpace();
      if (this.text[this.at] !== '"') throw new NotStrictJson("the text is not JSON: a name is a string");
      const name = this.string();
      this.skipSpace();
      this.expect(":");
      this.skipSpace();
      const value = this.value(depth + 1);
      if (Object.hasOwn(members, name)) throw new NotStrictJson("an object has the same name twice");
      // Not by assignment: `__proto__` is a name like any other.
      Object.defineProperty(members, name, { value, enumerable: true, writable: true, configurable: true });
      this.skipSpace();
    } while (this.takes(","));
    this.expect("}");
    return members;
  }

  /** @param {number} depth */
  array(depth) {
    /** @type {unknown[]} */
    const items = [];
    this.skipSpace();
    if (this.takes("]")) return items;
    do {
      this.skipSpace();
      items.push(this.value(depth + 1));
      this.skipSpace();
    } while (this.takes(","));
    this.expect("]");
    return items;
  }

  string() {
    this.at += 1;
    let found = this.match(CHARACTERS)?.[0] ?? "";
    while (!this.takes('"')) {
      this.expect("\\");
      found += this.escape();
      found += this.match(CHARACTERS)?.[0] ?? "";
    }
    if (LONE_SURROGATE.test(found)) {
      throw new NotStrictJson("a string has a lone surrogate, which is no character");
    }
    return found;
  }

  escape() {
    const letter = this.text[this.at] ?? "";
    this.at += 1;
    if (letter === "u") {
      const digits = this.match(HEX);
      if (digits === null) throw new NotStrictJson("the text is not JSON: an escape has four digits");
      return String.fromCharCode(Number.parseInt(digits[0], 16));
    }
    const found = Object.hasOwn(ESCAPES, letter) ? ESCAPES[letter] : undefined;
    if (found === undefined) throw new NotStrictJson("the text is not JSON: there is no such escape");
    return found;
  }

  number() {
    const found = this.match(NUMBER);
    if (found === null) throw new NotStrictJson("the text is not JSON: a value is expected");
    const number = Number(found[0]);
    if (found[1] === undefined && found[2] === undefined) {
      if (!Number.isSafeInteger(number)) throw new NotStrictJson("an integer is beyond ±(2^53-1)");
      return number === 0 ? 0 : number; // `-0` is an integer, and those have one zero
    }
    if (!Number.isFinite(number)) throw new NotStrictJson("a number does not fit a double");
    return this.keepFractions && Number.isInteger(number) ? new Fraction(number) : number;
  }

  /** @param {RegExp} pattern sticky */
  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found !== null) this.at = pattern.lastIndex;
    return found;
  }

  skipSpace() {
    this.match(SPACE);
  }

  /** @param {string} char */
  takes(char) {
    if (this.text[this.at] !== char) return false;
    this.at += 1;
    return true;
  }

  /** @param {string} char */
  expect(char) {
    if (!this.takes(char)) throw new NotStrictJson(`the text is not JSON: \`${char}\` is expected`);
  }
}
