/**
 * One element of `actions`.
 *
 * @typedef {object} Right
 * @property {string} text
 * @property {string} key the three answers
 * @property {readonly string[]} above the keys of all rights that this one lies in, its own among them
 */
/**
 * Server and name of `server/name`; `null` for anything else.
 *
 * @param {string} tool
 * @returns {readonly [string, string] | null}
 */
export function splitTool(tool: string): readonly [string, string] | null;
/**
 * The keys of every right that covers one verb of one tool.
 *
 * @param {string | null} server
 * @param {string | null} name
 * @param {string | null} verb
 * @returns {readonly string[]}
 */
export function rightsAbove(server: string | null, name: string | null, verb: string | null): readonly string[];
/**
 * The right that `text` writes; `null` for wildcards, look-alikes and whatever else is none.
 *
 * @param {string} text
 * @returns {Right | null}
 */
export function parseRight(text: string): Right | null;
/**
 * R: what may be done. A verb, a tool, or a verb with one tool, split at the last colon where a verb follows.
 * A right is three questions (server, name, verb), each answered or left open, and lies in another when every
 * answer of the other is its own.
 *
 * @module
 */
/** Spec section 1. */
export const VERBS: Set<string>;
/**
 * One element of `actions`.
 */
export type Right = {
    text: string;
    /**
     * the three answers
     */
    key: string;
    /**
     * the keys of all rights that this one lies in, its own among them
     */
    above: readonly string[];
};
