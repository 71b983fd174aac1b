/**
 * The RFC 8785 form of `value`. Members that are `undefined` are left out, as `JSON.stringify` leaves them
 * out.
 *
 * @param {unknown} value
 * @returns {string}
 * @throws {NotCanonical} for NaN, integers beyond ±(2^53−1), lone surrogates, and whatever is not JSON
 */
export function canonicalJson(value: unknown): string;
/**
 * The same in UTF-8.
 *
 * @param {unknown} value
 * @returns {Uint8Array<ArrayBuffer>}
 * @throws {NotCanonical}
 */
export function canonicalBytes(value: unknown): Uint8Array<ArrayBuffer>;
/** The value has no canonical form: it is not JSON, or would be another value to another reader. */
export class NotCanonical extends Error {
}
