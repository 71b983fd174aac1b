/**
 * A call against the entries of a capability (stage 6 of a decision, and whoever checks a plan offline).
 *
 * @module
 */

import { unmetMember } from "./constraints.js";
import { parseObject, quote } from "./objects.js";
import { Reason, Refusal, nearness } from "./reasons.js";
import { rightsAbove, splitTool } from "./rights.js";
import { meets } from "./values.js";

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
export function checkCall(entries, call) {
  const used = [];
  for (const access of call.accesses) {
    /** @type {Refusal | null} */
    let nearest = null;
    let position = -1;
    for (const [at, entry] of entries.entries()) {
      const refused = checkAccess(entry, call, access);
      if (refused === null) {
        position = at;
        break;
      }
      if (nearest === null || nearness(refused.component) > nearness(nearest.component)) nearest = refused;
    }
    if (position < 0) return nearest ?? nothing("the capability has no entry");
    used.push(position);
  }
  return used.length > 0 ? used : nothing("the call has no access that a right could cover");
}

/** @param {string} detail */
function nothing(detail) {
  return new Refusal(Reason.RIGHT_MISSING, detail, { component: "R" });
}

/**
 * Refuse one access that `entry` does not allow, naming R, O or P.
 *
 * @param {import("./entries.js").Entry} entry
 * @param {ToolCall} call
 * @param {CallAccess} access
 * @returns {Refusal | null}
 */
export function checkAccess(entry, call, access) {
  const tool = splitTool(call.tool);
  if (tool === null || !meets(entry.rightKeys, rightsAbove(tool[0], tool[1], access.verb))) {
    return nothing(`no right to \`${access.verb}\` with \`${call.tool}\``);
  }
  const item = parseObject(access.uri);
  if (item === null || !meets(entry.locationKeys, item.above)) {
    return new Refusal(Reason.OBJECT_OUTSIDE, `\`${access.uri}\` lies in none of the locations`, {
      component: "O",
    });
  }
  for (const condition of entry.conditions.values()) {
    const name = unmetMember(condition, call.arguments, (pointer, value) => urisAt(call, pointer, value));
    if (name !== null) {
      return new Refusal(Reason.CONSTRAINT_UNMET, `\`${condition.pointer}\`: \`${name}\``, {
        component: "P",
      });
    }
  }
  return null;
}

/**
 * The canonical URIs that the argument at `pointer` names; `null` where it names none. Those of the accesses
 * that stand there. An argument that is no access is taken by its own spelling: a canonical URI, or an
 * absolute path; of a list every item counts.
 *
 * @param {ToolCall} call
 * @param {string} pointer
 * @param {unknown} value
 * @returns {readonly string[] | null}
 */
function urisAt(call, pointer, value) {
  const known = call.accesses.filter((access) => access.argument === pointer).map((access) => access.uri);
  if (known.length > 0) return known;
  if (Array.isArray(value)) {
    const found = [];
    for (const [index, item] of value.entries()) {
      const inner = urisAt(call, `${pointer}/${index}`, item);
      if (inner === null) return null;
      found.push(...inner);
    }
    return found;
  }
  if (typeof value !== "string") return null;
  const uri = value.startsWith("/") ? `file://${quote(value)}` : value;
  return parseObject(uri) === null ? null : [uri];
}
