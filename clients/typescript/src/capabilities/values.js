/**
 * What a value of a token may look like: exact types, exact members, bounded texts. A member is one of the
 * object's own, so that no name is found on a prototype.
 *
 * @module
 */

/** The end of the year 9999, in seconds since 1970. */
const MAX_DATE = 253_402_300_799;
const HASH = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]|\p{Surrogate}/u;

/**
 * @param {unknown} value
 * @returns {value is Record<string, any>}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Its own member, `undefined` where there is none.
 *
 * @param {object} object
 * @param {string} name
 * @returns {any}
 */
export function member(object, name) {
  return Object.hasOwn(object, name) ? /** @type {any} */ (object)[name] : undefined;
}

/**
 * Whether `value` is an object with exactly these members.
 *
 * @param {unknown} value
 * @param {...string} names
 * @returns {value is Record<string, any>}
 */
export function hasExactly(value, ...names) {
  return (
    isObject(value) && names.every((name) => Object.hasOwn(value, name)) && hasOnly(value, new Set(names))
  );
}

/**
 * @param {object} value
 * @param {ReadonlySet<string>} names
 */
export function hasOnly(value, names) {
  return Object.keys(value).every((name) => names.has(name));
}

/**
 * Code points, which is what lengths of texts are counted in.
 *
 * @param {string} text
 */
export function codePoints(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/**
 * Whether `value` is a text of 1 to `most` code points that a log line, a header and a C string can hold.
 *
 * @param {unknown} value
 * @param {number} [most]
 * @returns {value is string}
 */
export function isName(value, most = 256) {
  if (typeof value !== "string" || value.length === 0 || value.length > 2 * most) return false;
  return codePoints(value) <= most && !CONTROL.test(value);
}

/**
 * Whether `value` is a SHA-256 in base64url, in its one spelling.
 *
 * @param {unknown} value
 * @returns {value is string}
 */
export function isHash(value) {
  return typeof value === "string" && HASH.test(value);
}

/**
 * Whether `value` is an integer that was written as one.
 *
 * @param {unknown} value
 * @param {number} [least]
 * @param {number} [most]
 * @returns {value is number}
 */
export function isInteger(value, least = 0, most = Number.MAX_SAFE_INTEGER) {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least && value <= most;
}

/**
 * Whether `value` is an integer that can be a date, in seconds since 1970.
 *
 * @param {unknown} value
 * @returns {value is number}
 */
export function isDate(value) {
  return isInteger(value, 0, MAX_DATE);
}

/**
 * @template T
 * @param {ReadonlySet<T>} one
 * @param {Iterable<T>} other
 */
export function meets(one, other) {
  for (const item of other) if (one.has(item)) return true;
  return false;
}
