/**
 * The list as `GET /revocations` gives it: `{"links": […], "jtis": […], "holders": […]}`.
 *
 * @param {unknown} value
 * @returns {Revocations}
 * @throws {TypeError} for anything else: a list that is not understood must not read as an empty one
 */
export function parseRevocations(value: unknown): Revocations;
/**
 * Refuse if any of these is revoked by any handle.
 *
 * @param {Iterable<import("./claims.js").Ancestor>} ancestors
 * @param {Revocations} revoked
 * @returns {Refusal | null}
 */
export function checkRevoked(ancestors: Iterable<import("./claims.js").Ancestor>, revoked: Revocations): Refusal | null;
/**
 * Three sets; whatever one of them names is refused, with everything beneath it.
 *
 * @typedef {object} Revocations
 * @property {ReadonlySet<string>} links link hashes
 * @property {ReadonlySet<string>} jtis
 * @property {ReadonlySet<string>} holders thumbprints of holders' keys: the handle for children made offline
 */
/** @type {Revocations} */
export const NOTHING_REVOKED: Revocations;
/**
 * Three sets; whatever one of them names is refused, with everything beneath it.
 */
export type Revocations = {
    /**
     * link hashes
     */
    links: ReadonlySet<string>;
    jtis: ReadonlySet<string>;
    /**
     * thumbprints of holders' keys: the handle for children made offline
     */
    holders: ReadonlySet<string>;
};
import { Refusal } from "./reasons.js";
