/**
 * @param {unknown} value
 * @returns {value is Record<string, any>}
 */
export function isObject(value: unknown): value is Record<string, any>;
/**
 * Its own member, `undefined` where there is none.
 *
 * @param {object} object
 * @param {string} name
 * @returns {any}
 */
export function member(object: object, name: string): any;
/**
 * Whether `value` is an object with exactly these members.
 *
 * @param {unknown} value
 * @param {...string} names
 * @returns {value is Record<string, any>}
 */
export function hasExactly(value: unknown, ...names: string[]): value is Record<string, any>;
/**
 * @param {object} value
 * @param {ReadonlySet<string>} names
 */
export function hasOnly(value: object, names: ReadonlySet<string>): boolean;
/**
 * Code points, which is what lengths of texts are counted in.
 *
 * @param {string} text
 */
export function codePoints(text: string): number;
/**
 * Whether `value` is a text of 1 to `most` code points that a log line, a header and a C string can hold.
 *
 * @param {unknown} value
 * @param {number} [most]
 * @returns {value is string}
 */
export function isName(value: unknown, most?: number): value is string;
/**
 * Whether `value` is a SHA-256 in base64url, in its one spelling.
 *
 * @param {unknown} value
 * @returns {value is string}
 */
export function isHash(value: unknown): value is string;
/**
 * Whether `value` is an integer that was written as one.
 *
 * @param {unknown} value
 * @param {number} [least]
 * @param {number} [most]
 * @returns {value is number}
 */
export function isInteger(value: unknown, least?: number, most?: number): value is number;
/**
 * Whether `value` is an integer that can be a date, in seconds since 1970.
 *
 * @param {unknown} value
 * @returns {value is number}
 */
export function isDate(value: unknown): value is number;
/**
 * @template T
 * @param {ReadonlySet<T>} one
 * @param {Iterable<T>} other
 */
export function meets<T>(one: ReadonlySet<T>, other: Iterable<T>): boolean;
