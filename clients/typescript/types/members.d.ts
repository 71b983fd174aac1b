/**
 * `value`, called `name` in what is thrown.
 *
 * @param {unknown} value
 * @param {string} name
 * @returns {Members}
 */
export function anObject(value: unknown, name: string): Members;
/**
 * Its own member; `null` where there is none.
 *
 * @param {Members} members
 * @param {string} name
 */
export function own(members: Members, name: string): {} | null;
/**
 * A string that is not empty.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {string}
 */
export function text(members: Members, name: string): string;
/**
 * By `read`, or `null` where the member is absent or null.
 *
 * @template T
 * @param {Members} members
 * @param {string} name
 * @param {(members: Members, name: string) => T} read
 * @returns {T | null}
 */
export function optional<T>(members: Members, name: string, read: (members: Members, name: string) => T): T | null;
/**
 * A string, also an empty one.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {string | null}
 */
export function optionalText(members: Members, name: string): string | null;
/**
 * @param {Members} members
 * @param {string} name
 * @returns {number | null}
 */
export function optionalInteger(members: Members, name: string): number | null;
/**
 * A boolean; absent is false.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {boolean}
 */
export function optionalBoolean(members: Members, name: string): boolean;
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
export function each<T>(members: Members, name: string, read: (item: unknown) => T, { required }?: {
    required?: boolean;
}): readonly T[];
/**
 * Strings; absent is none.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {readonly string[]}
 */
export function texts(members: Members, name: string): readonly string[];
/**
 * One of a closed set. What is not of it is not skipped: it may be a bound that the service relies on.
 *
 * @template {string} T
 * @param {Members} members
 * @param {string} name
 * @param {Readonly<Record<string, T>>} known
 * @returns {T}
 */
export function oneOf<T extends string>(members: Members, name: string, known: Readonly<Record<string, T>>): T;
/**
 * @template {string} T
 * @param {string} value
 * @param {string} name
 * @param {Readonly<Record<string, T>>} known
 * @returns {T}
 */
export function member<T extends string>(value: string, name: string, known: Readonly<Record<string, T>>): T;
/**
 * An RFC 3339 date and time with an offset. Digits beyond milliseconds are cut off: what expires, expires
 * earlier.
 *
 * @param {Members} members
 * @param {string} name
 * @returns {Date}
 */
export function instant(members: Members, name: string): Date;
export type Members = Record<string, unknown>;
