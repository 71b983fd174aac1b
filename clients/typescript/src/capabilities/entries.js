/**
 * The entries of a capability (RFC 9396 `authorization_details`): what they allow, and when one is narrower.
 *
 * An entry is **narrower** than another (child ⪯ parent) when each right lies in one of the parent's, each
 * location in one of the parent's, each condition of the parent is repeated or tightened, and so is its
 * budget. A child under several parents' entries fits under one of them whole; parts of two are not put
 * together.
 *
 * @module
 */

import { BadBudget, parseBudget, widenedBudget } from "./budgets.js";
import { BadConstraint, parseCondition, widenedMember } from "./constraints.js";
import { parseObject } from "./objects.js";
import { Reason, Refusal, WIDENED, nearness } from "./reasons.js";
import { parseRight } from "./rights.js";
import { hasOnly, isObject, meets } from "./values.js";

export const DETAIL_TYPE = "agent_tool_call";
const MAX_ENTRIES = 16;
const MAX_ACTIONS = 64;
const MAX_LOCATIONS = 64;
const MAX_CONSTRAINTS = 32;
const REQUIRED = ["type", "actions", "locations"];
const MEMBERS = new Set([...REQUIRED, "constraints", "budget"]);

/**
 * One element of `authorization_details`, in parsed form.
 *
 * @typedef {object} Entry
 * @property {readonly import("./rights.js").Right[]} rights
 * @property {readonly import("./objects.js").CanonicalObject[]} locations
 * @property {ReadonlyMap<string, import("./constraints.js").Condition>} conditions by JSON Pointer
 * @property {import("./budgets.js").Budget | null} budget
 * @property {ReadonlySet<string>} rightKeys
 * @property {ReadonlySet<string>} locationKeys
 * @property {Record<string, any>} json as it stood in the token
 */

/**
 * One element of `authorization_details`, as it is written.
 *
 * @typedef {object} EntryJson
 * @property {"agent_tool_call"} type
 * @property {readonly string[]} actions verbs, tools, or `tool:verb`
 * @property {readonly string[]} locations canonical URIs
 * @property {Readonly<Record<string, Readonly<Record<string, unknown>>>>} [constraints]
 * @property {Readonly<Record<string, unknown>>} [budget]
 */

/**
 * The entries of a link. All of them are understood, or the link is refused.
 *
 * @param {unknown} details
 * @returns {readonly Entry[] | Refusal}
 */
export function parseEntries(details) {
  if (!Array.isArray(details) || details.length === 0 || details.length > MAX_ENTRIES) {
    return malformed(`\`authorization_details\` is a list of 1 to ${MAX_ENTRIES} entries`);
  }
  const entries = [];
  for (const detail of details) {
    const entry = parseEntry(detail);
    if (entry instanceof Refusal) return entry;
    entries.push(entry);
  }
  return entries;
}

/**
 * @param {unknown} detail
 * @returns {Entry | Refusal}
 */
function parseEntry(detail) {
  if (
    !isObject(detail) ||
    !REQUIRED.every((name) => Object.hasOwn(detail, name)) ||
    !hasOnly(detail, MEMBERS)
  ) {
    return malformed("an entry has `type`, `actions`, `locations`, optional `constraints` and `budget`");
  }
  if (detail.type !== DETAIL_TYPE) return malformed(`the type of an entry is \`${DETAIL_TYPE}\``);
  if (!isListOfStrings(detail.actions, MAX_ACTIONS)) {
    return new Refusal(Reason.ACTION_INVALID, `\`actions\` is a list of 1 to ${MAX_ACTIONS} strings`);
  }
  const rights = parsedAll(detail.actions, parseRight);
  if (rights === null) {
    return new Refusal(Reason.ACTION_INVALID, "an action is a verb, a tool, or `tool:verb`; no wildcards");
  }
  if (!isListOfStrings(detail.locations, MAX_LOCATIONS)) {
    return new Refusal(Reason.LOCATION_INVALID, `\`locations\` is a list of 1 to ${MAX_LOCATIONS} strings`);
  }
  const locations = parsedAll(detail.locations, parseObject);
  if (locations === null) return new Refusal(Reason.LOCATION_INVALID, "a location is not a canonical URI");
  try {
    return {
      rights,
      locations,
      conditions: parseConditions(Object.hasOwn(detail, "constraints") ? detail.constraints : {}),
      budget: Object.hasOwn(detail, "budget") ? parseBudget(detail.budget) : null,
      rightKeys: new Set(rights.map((right) => right.key)),
      locationKeys: new Set(locations.map((item) => item.key)),
      json: detail,
    };
  } catch (error) {
    if (error instanceof BadConstraint) return new Refusal(Reason.CONSTRAINT_INVALID, error.message);
    if (error instanceof BadBudget) return new Refusal(Reason.BUDGET_INVALID, error.message);
    throw error;
  }
}

/** @param {string} detail */
function malformed(detail) {
  return new Refusal(Reason.DETAILS_INVALID, detail);
}

/**
 * @param {unknown} value
 * @param {number} most
 * @returns {value is string[]}
 */
function isListOfStrings(value, most) {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= most &&
    value.every((item) => typeof item === "string")
  );
}

/**
 * @template T
 * @param {readonly string[]} texts
 * @param {(text: string) => T | null} parse
 * @returns {T[] | null} `null` where one is not understood
 */
function parsedAll(texts, parse) {
  const found = [];
  for (const text of texts) {
    const one = parse(text);
    if (one === null) return null;
    found.push(one);
  }
  return found;
}

/** @param {unknown} constraints */
function parseConditions(constraints) {
  if (!isObject(constraints) || Object.keys(constraints).length > MAX_CONSTRAINTS) {
    throw new BadConstraint(`\`constraints\` is an object of at most ${MAX_CONSTRAINTS} members`);
  }
  /** @type {Map<string, import("./constraints.js").Condition>} */
  const found = new Map();
  for (const [key, members] of Object.entries(constraints)) {
    const condition = parseCondition(key, members);
    if (found.has(condition.pointer)) {
      throw new BadConstraint(`\`${condition.pointer}\` is constrained twice, by name and by pointer`);
    }
    found.set(condition.pointer, condition);
  }
  return found;
}

/**
 * What of `child` is not in `parent`, the first of R, O, P; `null` when child ⪯ parent.
 *
 * @param {Entry} child
 * @param {Entry} parent
 * @returns {{ component: import("./reasons.js").Component, detail: string } | null}
 */
export function widening(child, parent) {
  // By look-up and not by pairs: a holder chooses how many there are.
  const right = child.rights.find((one) => !meets(parent.rightKeys, one.above));
  if (right) return { component: "R", detail: `\`${right.text}\` is not in the parent's rights` };
  const item = child.locations.find((one) => !meets(parent.locationKeys, one.above));
  if (item) return { component: "O", detail: `\`${item.uri}\` lies in none of the parent's locations` };
  for (const [pointer, condition] of parent.conditions) {
    const name = widenedMember(child.conditions.get(pointer), condition);
    if (name !== null)
      return { component: "P", detail: `\`${name}\` of \`${pointer}\` is left out or loosened` };
  }
  const name = widenedBudget(child.budget, parent.budget);
  return name === null ? null : { component: "P", detail: `\`${name}\` of the budget is left out or raised` };
}

/**
 * For each child entry, the first parent entry that it fits under; or what widened. Where it fits under none,
 * the refusal is about the parent entry that it comes nearest to: the one that gives it its rights, then its
 * objects.
 *
 * @param {readonly Entry[]} children
 * @param {readonly Entry[]} parents
 * @returns {readonly number[] | Refusal}
 */
export function fit(children, parents) {
  const chosen = [];
  for (const [index, child] of children.entries()) {
    let nearest = null;
    let position = -1;
    for (const [at, parent] of parents.entries()) {
      const found = widening(child, parent);
      if (found === null) {
        position = at;
        break;
      }
      if (nearest === null || nearness(found.component) > nearness(nearest.component)) nearest = found;
    }
    if (position < 0) {
      if (nearest === null) return new Refusal(Reason.DETAILS_INVALID, "there is no entry to fit under");
      const { component, detail } = nearest;
      return new Refusal(WIDENED[component], `entry ${index}: ${detail}`, { component });
    }
    chosen.push(position);
  }
  return chosen;
}
