/**
 * R: what may be done. A verb, a tool, or a verb with one tool, split at the last colon where a verb follows.
 * A right is three questions (server, name, verb), each answered or left open, and lies in another when every
 * answer of the other is its own.
 *
 * @module
 */

/** Spec section 1. */
export const VERBS = new Set([
  "read",
  "write",
  "delete",
  "execute",
  "connect",
  "send",
  "transact",
  "administer",
]);
const SERVER = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$/;
const MAX_CHARACTERS = 256;

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
export function splitTool(tool) {
  const slash = tool.indexOf("/");
  if (slash < 0) return null;
  const [server, name] = [tool.slice(0, slash), tool.slice(slash + 1)];
  return SERVER.test(server) && NAME.test(name) ? [server, name] : null;
}

/**
 * The keys of every right that covers one verb of one tool.
 *
 * @param {string | null} server
 * @param {string | null} name
 * @param {string | null} verb
 * @returns {readonly string[]}
 */
export function rightsAbove(server, name, verb) {
  /** @param {string | null} answer */
  const orOpen = (answer) => (answer === null ? [null] : [answer, null]);
  return orOpen(server).flatMap((s) =>
    orOpen(name).flatMap((n) => orOpen(verb).map((v) => rightKey(s, n, v))),
  );
}

/**
 * @param {string | null} server
 * @param {string | null} name
 * @param {string | null} verb
 */
function rightKey(server, name, verb) {
  return JSON.stringify([server, name, verb]);
}

/**
 * The right that `text` writes; `null` for wildcards, look-alikes and whatever else is none.
 *
 * @param {string} text
 * @returns {Right | null}
 */
export function parseRight(text) {
  if (text.length > MAX_CHARACTERS) return null;
  if (VERBS.has(text)) return right(text, null, null, text);
  const colon = text.lastIndexOf(":");
  const last = text.slice(colon + 1);
  const verb = colon >= 0 && VERBS.has(last) ? last : null;
  const tool = verb === null ? text : text.slice(0, colon);
  if (tool.includes("/")) {
    const parts = splitTool(tool);
    return parts && right(text, parts[0], parts[1], verb);
  }
  return VERBS.has(tool) || !NAME.test(tool) ? null : right(text, null, tool, verb);
}

/**
 * @param {string} text
 * @param {string | null} server
 * @param {string | null} name
 * @param {string | null} verb
 * @returns {Right}
 */
function right(text, server, name, verb) {
  return { text, key: rightKey(server, name, verb), above: rightsAbove(server, name, verb) };
}
