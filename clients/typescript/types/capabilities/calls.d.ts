/**
 * One access of a call. A tree is judged at its root: what contains that contains what is beneath it.
 *
 * @typedef {object} CallAccess
 * @property {string} verb
 * @property {string} uri canonical; an `opaque:` URI lies in no location
 * @property {string} [argument] JSON Pointer of the argument that names the resource
 */
/**
 * What entries are held against: canonical values, as a decision has them.
 *
 * @typedef {object} ToolCall
 * @property {string} tool `server/name`
 * @property {readonly CallAccess[]} accesses
 * @property {Readonly<Record<string, unknown>>} arguments canonical, with defaults
 */
/**
 * For each access of `call` the first entry that allows it; or why the first that none allows is refused. The
 * refusal is about the entry that comes nearest. Without an access, or without an entry, nothing could allow
 * it.
 *
 * @param {readonly import("./entries.js").Entry[]} entries
 * @param {ToolCall} call
 * @returns {readonly number[] | Refusal}
 */
export function checkCall(entries: readonly import("./entries.js").Entry[], call: ToolCall): readonly number[] | Refusal;
/**
 * Refuse one access that `entry` does not allow, naming R, O or P.
 *
 * @param {import("./entries.js").Entry} entry
 * @param {ToolCall} call
 * @param {CallAccess} access
 * @returns {Refusal | null}
 */
export function checkAccess(entry: import("./entries.js").Entry, call: ToolCall, access: CallAccess): Refusal | null;
/**
 * One access of a call. A tree is judged at its root: what contains that contains what is beneath it.
 */
export type CallAccess = {
    verb: string;
    /**
     * canonical; an `opaque:` URI lies in no location
     */
    uri: string;
    /**
     * JSON Pointer of the argument that names the resource
     */
    argument?: string;
};
/**
 * What entries are held against: canonical values, as a decision has them.
 */
export type ToolCall = {
    /**
     * `server/name`
     */
    tool: string;
    accesses: readonly CallAccess[];
    /**
     * canonical, with defaults
     */
    arguments: Readonly<Record<string, unknown>>;
};
import { Refusal } from "./reasons.js";
