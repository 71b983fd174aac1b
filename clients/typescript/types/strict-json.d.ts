/**
 * The value of UTF-8 `data`, or of a text. Bounding its size is the caller's.
 *
 * @param {Uint8Array | string} data
 * @param {Limits} [limits]
 * @returns {any}
 * @throws {NotStrictJson}
 */
export function parseStrict(data: Uint8Array | string, limits?: Limits): any;
/**
 * JSON with one meaning for every text (RFC 8259, restricted as I-JSON, RFC 7493): duplicate names, integer
 * literals beyond ±(2^53−1), numbers that overflow a double, lone surrogates, invalid UTF-8, too deep nesting
 * and too many values are refused. `JSON.parse` takes all of them, and rounds.
 *
 * @module
 */
/** What the token profile and the service allow of one text. */
export const MAX_DEPTH: 64;
export const MAX_VALUES: 10000;
/** The text is not JSON, or readers could take it differently. Says why, without echoing it. */
export class NotStrictJson extends Error {
}
/**
 * A whole number that was written with a fraction or an exponent (`5.0`, `1e3`): a number, and no integer.
 * Only where it is asked for (`keepFractions`): tokens know one spelling of a date.
 */
export class Fraction {
    /** @param {number} value */
    constructor(value: number);
    value: number;
}
export type Limits = {
    maxDepth?: number;
    /**
     * scalars, arrays and objects; names are not counted
     */
    maxValues?: number;
    /**
     * whole numbers that are not written as integers become a `Fraction`
     */
    keepFractions?: boolean;
};
