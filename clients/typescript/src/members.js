/**
 * Reading the members of an answer. What is missing or of another type is a `MalformedAnswer`.
 *
 * @module
 */

import { MalformedAnswer } from "./errors.js";

/** @typedef {Record<string, unknown>} Members */

// RFC 3339. `Date.parse` alone also takes other forms, and February 30th.
const INSTANT = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/**
 * `value`, called `name` in what is thrown.
 *
 * @param {unknown} value
 * @param {string} name
 * @returns {Members}
 */
export function anObject(value, name) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new MalformedAnswer(`\`${name}\` must be an object`);
  }
  return /** @type {Members} */ (value);
}

/**
 * Its own member; `null` where there is none.
 *
 * @param {Members} members
 * @param {string} name
 */
export function own(members, name) {
  return (Object.hasOwn(members, name) ? members[name] : null) ?? null;
}

/**
 * A string that is not empty.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {string}
 */
export function text(members, name) {
  const value = own(members, name);
  if (typeof value !== "string" || value === "")
    throw new MalformedAnswer(`\`${name}\` must be a non-empty string`);
  return value;
}

/**
 * By `read`, or `null` where the member is absent or null.
 *
 * @template T
 * @param {Members} members
 * @param {string} name
 * @param {(members: Members, name: string) => T} read
 * @returns {T | null}
 */
export function optional(members, name, read) {
  return own(members, name) === null ? null : read(members, name);
}

/**
 * A string, also an empty one.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {string | null}
 */
export function optionalText(members, name) {
  const value = own(members, name);
  if (value !== null && typeof value !== "string") throw new MalformedAnswer(`\`${name}\` must be a string`);
  return value;
}

/**
 * @param {Members} members
 * @param {string} name
 * @returns {number | null}
 */
export function optionalInteger(members, name) {
  const value = own(members, name);
  if (value !== null && !Number.isSafeInteger(value))
    throw new MalformedAnswer(`\`${name}\` must be an integer`);
  return /** @type {number | null} */ (value);
}

/**
 * A boolean; absent is false.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {boolean}
 */
export function optionalBoolean(members, name) {
  const value = own(members, name);
  if (value !== null && typeof value !== "boolean")
    throw new MalformedAnswer(`\`${name}\` must be a boolean`);
  return value === true;
}

/**
 * Each item by `read`; absent is empty unless `required`.
 *
 * @template T
 * @param {Members} members
 * @param {string} name
 * @param {(item: unknown) => T} read
 * @param {{ required?: boolean }} [options]
 * @returns {readonly T[]}
 */
export function each(members, name, read, { required = false } = {}) {
  const value = own(members, name);
  if (value === null && !required) return Object.freeze([]);
  if (!Array.isArray(value)) throw new MalformedAnswer(`\`${name}\` must be an array`);
  return Object.freeze(value.map((item) => read(item)));
}

/**
 * Strings; absent is none.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {readonly string[]}
 */
export function texts(members, name) {
  return each(members, name, (item) => {
    if (typeof item !== "string") throw new MalformedAnswer(`\`${name}\` must be an array of strings`);
    return item;
  });
}

/**
 * One of a closed set. What is not of it is not skipped: it may be a bound that the service relies on.
 *
 * @template {string} T
 * @param {Members} members
 * @param {string} name
 * @param {Readonly<Record<string, T>>} known
 * @returns {T}
 */
export function oneOf(members, name, known) {
  return member(text(members, name), name, known);
}

/**
 * @template {string} T
 * @param {string} value
 * @param {string} name
 * @param {Readonly<Record<string, T>>} known
 * @returns {T}
 */
export function member(value, name, known) {
  const found = Object.values(known).find((one) => one === value);
  if (found === undefined) {
    throw new MalformedAnswer(`\`${value.slice(0, 60)}\` of \`${name}\` is unknown: update this client`);
  }
  return found;
}

/**
 * An RFC 3339 date and time with an offset. Digits beyond milliseconds are cut off: what expires, expires
 * earlier.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {Date}
 */
export function instant(members, name) {
  const found = INSTANT.exec(text(members, name));
  const date = found === null ? null : dateOf(found);
  if (date === null)
    throw new MalformedAnswer(`\`${name}\` must be an RFC 3339 date and time with an offset`);
  return date;
}

/**
 * @param {RegExpExecArray} found
 * @returns {Date | null}
 */
function dateOf([, year, month, day, hour, minute, second, fraction = "", sign, offsetHour, offsetMinute]) {
  const date = new Date(0);
  // Not the constructor: it takes the years 0 to 99 for those of another century.
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  date.setUTCHours(Number(hour), Number(minute), Number(second), Number(fraction.padEnd(3, "0").slice(0, 3)));
  const written = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  // What is no date of the calendar, or a leap second, was written otherwise.
  if (year === "0000" || date.toISOString().slice(0, 19) !== written) return null;
  if (sign === undefined) return date;
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) return null;
  const minutes = Number(offsetHour) * 60 + Number(offsetMinute);
  return new Date(date.getTime() - (sign === "-" ? -minutes : minutes) * 60_000);
}
