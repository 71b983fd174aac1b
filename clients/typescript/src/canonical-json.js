/**
 * RFC 8785 (JCS): the one text of a JSON value. Numbers and strings are written by `JSON.stringify`, which is
 * what the RFC defines them by (sections 3.2.2.2 and 3.2.2.3).
 *
 * @module
 */

import { Fraction } from "./strict-json.js";

/** Deeper values have no canonical form here: they are no request, and a cycle is deeper than anything. */
const MAX_NESTING = 256;
const LONE_SURROGATE = /\p{Surrogate}/u;
const encoder = new TextEncoder();

/** The value has no canonical form: it is not JSON, or would be another value to another reader. */
export class NotCanonical extends Error {
  name = "NotCanonical";
}

/**
 * The RFC 8785 form of `value`. Members that are `undefined` are left out, as `JSON.stringify` leaves them
 * out.
 *
 * @param {unknown} value
 * @returns {string}
 * @throws {NotCanonical} for NaN, integers beyond ±(2^53−1), lone surrogates, and whatever is not JSON
 */
export function canonicalJson(value) {
  return written(value, 1);
}

/**
 * The same in UTF-8.
 *
 * @param {unknown} value
 * @returns {Uint8Array<ArrayBuffer>}
 * @throws {NotCanonical}
 */
export function canonicalBytes(value) {
  return encoder.encode(canonicalJson(value));
}

/**
 * @param {unknown} value
 * @param {number} depth
 * @returns {string}
 */
function written(value, depth) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return text(value);
  if (typeof value === "number") return number(value);
  if (value instanceof Fraction) return finite(value.value);
  if (depth > MAX_NESTING)
    throw new NotCanonical(`the value is nested over ${MAX_NESTING} levels, or in itself`);
  if (Array.isArray(value)) {
    // Not `map`: it skips holes, which are no JSON.
    return `[${Array.from(value, (item) => written(item, depth + 1)).join(",")}]`;
  }
  if (typeof value === "object" && isPlain(value)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    // By UTF-16 code units, which is how strings compare here (section 3.2.3).
    members.sort(([one], [other]) => (one < other ? -1 : 1));
    return `{${members.map(([name, member]) => `${text(name)}:${written(member, depth + 1)}`).join(",")}}`;
  }
  throw new NotCanonical(`a value of type \`${typeof value}\` is not JSON`);
}

/** @param {string} value */
function text(value) {
  if (LONE_SURROGATE.test(value))
    throw new NotCanonical("a string has a lone surrogate, which is no character");
  return JSON.stringify(value);
}

/** @param {number} value */
function number(value) {
  // What was a larger integer has been rounded by now, and would be sent as another number.
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new NotCanonical("an integer is beyond ±(2^53-1): send it as a string");
  }
  return finite(value);
}

/** @param {number} value */
function finite(value) {
  if (!Number.isFinite(value)) throw new NotCanonical("NaN and Infinity are not JSON");
  return JSON.stringify(value);
}

/** @param {object} value */
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  if (prototype === null) return true;
  // An object of another realm (a worker, `vm`) is as plain, and a class instance or a Map is not.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "hasOwnProperty");
}
