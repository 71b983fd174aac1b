/**
 * P: conditions on arguments, keyed by JSON Pointer (RFC 6901) or by the name of a top-level argument. All
 * members of all arguments must hold, and an argument that is constrained must be there.
 *
 * | member | the value | holds when | tightened by |
 * |---|---|---|---|
 * | `max`, `min` | number | the argument is a number at most / at least it | lower `max`, higher `min` |
 * | `equals` | any JSON | the argument is this value | the same |
 * | `one_of` | list of JSON, not empty | the argument is one of these values | a part of the list |
 * | `within` | one canonical URI, or more | what the argument names lies in one of them | URIs in these |
 * | `max_length` | integer ≥ 0 | the argument is a string of at most so many code points | a lower one |
 * | `max_items` | integer ≥ 0 | the argument is an array of at most so many items | a lower one |
 *
 * Values are compared as JSON: `1` is `1.0`, `true` is not `1`, objects by members. There is no negation,
 * which is what makes implication decidable: a child states every member of its parent, each the same or
 * tighter.
 *
 * @module
 */

import { NotCanonical, canonicalJson } from "../canonical-json.js";
import { Fraction } from "../strict-json.js";
import { parseObject } from "./objects.js";
import { codePoints, hasOnly, isInteger, isObject, meets } from "./values.js";

const MAX_VALUES = 64;
const MAX_KEY_CHARACTERS = 256;
const MEMBERS = new Set(["max", "min", "equals", "one_of", "within", "max_length", "max_items"]);
const POINTER = /^(?:\/(?:[^/~]|~[01])*)+$/u;
const INDEX = /^(?:0|[1-9][0-9]{0,8})$/;
const ABSENT = Symbol("absent");

/** A constraint that is not understood, and so refuses the whole capability. Says which rule it breaks. */
export class BadConstraint extends Error {
  name = "BadConstraint";
}

/**
 * The members for one argument, in parsed form.
 *
 * @typedef {object} Condition
 * @property {string} pointer JSON Pointer; the key `path` is `/path`
 * @property {Readonly<Record<string, any>>} members
 * @property {readonly import("./objects.js").CanonicalObject[]} within
 * @property {ReadonlySet<string>} withinKeys
 * @property {ReadonlySet<string>} oneOf RFC 8785 forms: equal where the values are
 */

/**
 * The JSON Pointer that a key of `constraints` means.
 *
 * @param {string} key
 * @returns {string}
 */
function asPointer(key) {
  if (key === "" || codePoints(key) > MAX_KEY_CHARACTERS) {
    throw new BadConstraint("a constraint is keyed by the name of an argument or a JSON Pointer");
  }
  if (!key.startsWith("/")) return `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  if (!POINTER.test(key)) throw new BadConstraint("a key of `constraints` is no JSON Pointer");
  return key;
}

/**
 * The condition on one argument.
 *
 * @param {string} key
 * @param {unknown} members
 * @returns {Condition}
 * @throws {BadConstraint} also for an unknown member: it is not skipped
 */
export function parseCondition(key, members) {
  const pointer = asPointer(key);
  if (!isObject(members) || Object.keys(members).length === 0) {
    throw new BadConstraint(`the constraint on \`${pointer}\` is empty, which would allow everything`);
  }
  if (!hasOnly(members, MEMBERS))
    throw new BadConstraint(`the constraint on \`${pointer}\` holds an unknown member`);
  /** @type {readonly import("./objects.js").CanonicalObject[]} */
  let within = [];
  /** @type {ReadonlySet<string>} */
  let oneOf = new Set();
  for (const [name, value] of Object.entries(members)) {
    if ((name === "max" || name === "min") && numberOf(value) === null) {
      throw new BadConstraint(`\`${name}\` of \`${pointer}\` is a number`);
    }
    if ((name === "max_length" || name === "max_items") && !isInteger(value)) {
      throw new BadConstraint(`\`${name}\` of \`${pointer}\` is an integer of at least 0`);
    }
    if (name === "one_of") oneOf = forms(pointer, value);
    if (name === "within") within = locations(pointer, value);
  }
  const [least, most] = [numberOf(members.min), numberOf(members.max)];
  if (least !== null && most !== null && least > most) {
    throw new BadConstraint(`\`min\` of \`${pointer}\` is over its \`max\``);
  }
  return { pointer, members, within, withinKeys: new Set(within.map((item) => item.key)), oneOf };
}

/**
 * @param {string} pointer
 * @param {unknown} values
 */
function forms(pointer, values) {
  if (!Array.isArray(values) || values.length === 0 || values.length > MAX_VALUES) {
    throw new BadConstraint(`\`one_of\` of \`${pointer}\` is a list of 1 to ${MAX_VALUES} values`);
  }
  try {
    return new Set(values.map((value) => canonicalJson(value)));
  } catch (error) {
    if (error instanceof NotCanonical)
      throw new BadConstraint(`\`one_of\` of \`${pointer}\`: ${error.message}`);
    throw error;
  }
}

/**
 * @param {string} pointer
 * @param {unknown} value
 */
function locations(pointer, value) {
  const uris = typeof value === "string" ? [value] : value;
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > MAX_VALUES) {
    throw new BadConstraint(
      `\`within\` of \`${pointer}\` is a canonical URI or a list of 1 to ${MAX_VALUES}`,
    );
  }
  return uris.map((uri) => {
    const found = typeof uri === "string" ? parseObject(uri) : null;
    if (found === null)
      throw new BadConstraint(`\`within\` of \`${pointer}\` holds a URI that is not canonical`);
    return found;
  });
}

/**
 * The first member of `parent` that `child` leaves out or loosens; `null` when it implies them all.
 *
 * @param {Condition | undefined} child
 * @param {Condition} parent
 * @returns {string | null}
 */
export function widenedMember(child, parent) {
  for (const [name, value] of Object.entries(parent.members)) {
    if (child === undefined || !Object.hasOwn(child.members, name)) return name;
    if (!tightens(name, child, parent, child.members[name], value)) return name;
  }
  return null;
}

/**
 * @param {string} name
 * @param {Condition} child
 * @param {Condition} parent
 * @param {any} mine
 * @param {any} theirs
 */
function tightens(name, child, parent, mine, theirs) {
  switch (name) {
    case "within":
      return child.within.every((item) => meets(parent.withinKeys, item.above));
    case "one_of":
      return [...child.oneOf].every((form) => parent.oneOf.has(form));
    case "equals":
      return sameJson(mine, theirs);
    case "min":
      return atMost(theirs, mine);
    case "max":
    case "max_length":
    case "max_items":
      return atMost(mine, theirs);
    default:
      return false;
  }
}

/**
 * The first member that `argumentsOfTool` do not meet; `null` when all hold.
 *
 * @param {Condition} condition
 * @param {unknown} argumentsOfTool
 * @param {(pointer: string, value: unknown) => readonly string[] | null} named the canonical URIs that the
 *   argument at a pointer names, `null` when it names none
 * @returns {string | null}
 */
export function unmetMember(condition, argumentsOfTool, named) {
  const value = valueAt(argumentsOfTool, condition.pointer);
  if (value === ABSENT) return "absent";
  for (const [name, bound] of Object.entries(condition.members)) {
    const uris = name === "within" ? named(condition.pointer, value) : null;
    const met =
      name === "within" ? uris !== null && allWithin(uris, condition.withinKeys) : holds(name, value, bound);
    if (!met) return name;
  }
  return null;
}

/**
 * @param {string} name
 * @param {any} value
 * @param {any} bound
 */
function holds(name, value, bound) {
  switch (name) {
    case "max":
      return atMost(value, bound);
    case "min":
      return atMost(bound, value);
    case "max_length":
      return typeof value === "string" && codePoints(value) <= bound;
    case "max_items":
      return Array.isArray(value) && value.length <= bound;
    case "equals":
      return sameJson(value, bound);
    case "one_of":
      return bound.some((/** @type {unknown} */ item) => sameJson(value, item));
    default:
      return false;
  }
}

/**
 * @param {readonly string[]} uris
 * @param {ReadonlySet<string>} places
 */
function allWithin(uris, places) {
  const found = uris.map((uri) => parseObject(uri));
  return found.length > 0 && found.every((item) => item !== null && meets(places, item.above));
}

/**
 * What `pointer` names, or a value that is no JSON where there is nothing.
 *
 * @param {unknown} document
 * @param {string} pointer
 * @returns {unknown}
 */
function valueAt(document, pointer) {
  let found = document;
  for (const escaped of pointer.split("/").slice(1)) {
    const token = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(found) && INDEX.test(token) && Number(token) < found.length) {
      found = found[Number(token)];
    } else if (isObject(found) && Object.hasOwn(found, token)) {
      found = found[token];
    } else {
      return ABSENT;
    }
  }
  return found;
}

/**
 * @param {unknown} value
 * @returns {number | null} `null` for what is no finite number
 */
function numberOf(value) {
  const number = value instanceof Fraction ? value.value : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

/**
 * @param {unknown} one
 * @param {unknown} other
 */
function atMost(one, other) {
  const [less, more] = [numberOf(one), numberOf(other)];
  return less !== null && more !== null && less <= more;
}

/**
 * Equality of JSON values.
 *
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
export function sameJson(one, other) {
  const [number, otherNumber] = [numberOf(one), numberOf(other)];
  if (number !== null || otherNumber !== null) return number === otherNumber;
  if (Array.isArray(one)) {
    return (
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((item, at) => sameJson(item, other[at]))
    );
  }
  if (isObject(one)) {
    if (!isObject(other) || Object.keys(one).length !== Object.keys(other).length) return false;
    return Object.keys(one).every((name) => Object.hasOwn(other, name) && sameJson(one[name], other[name]));
  }
  return one === other;
}
