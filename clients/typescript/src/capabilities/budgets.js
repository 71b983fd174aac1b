/**
 * The `budget` of an entry: how much may be spent, how often, how fast. Nothing here counts: N children made
 * offline each carry the whole of it, so the service debits every call against the budget of every link
 * above.
 *
 * @module
 */

import { isObject, isInteger, hasExactly, hasOnly } from "./values.js";

const AMOUNT = /^([0-9]{1,12})(?:\.([0-9]{1,6}))?$/;
const CURRENCY = /^[A-Z]{3,8}$/;
const MEMBERS = new Set(["cost", "calls", "rate"]);
/** Costs are counted in millionths of their currency, so that sums are exact. */
const COST_SCALE = 1_000_000n;
const MAX_SECONDS = 366 * 86_400;

/** A budget that is not understood, and so refuses the whole capability. */
export class BadBudget extends Error {
  name = "BadBudget";
}

/**
 * `null` bounds nothing.
 *
 * @typedef {object} Budget
 * @property {bigint | null} costMicros millionths of `currency`, for the whole life of the link
 * @property {string | null} currency ISO 4217 code, or a unit that the bundle uses
 * @property {number | null} calls calls, for the whole life of the link
 * @property {{ calls: number, seconds: number } | null} rate calls in any so many seconds
 */

/**
 * @param {unknown} value
 * @returns {Budget}
 * @throws {BadBudget} also for an unknown member: it is not skipped
 */
export function parseBudget(value) {
  if (!isObject(value) || Object.keys(value).length === 0 || !hasOnly(value, MEMBERS)) {
    throw new BadBudget("a budget has at least one of `cost`, `calls` and `rate`, and nothing else");
  }
  const cost = Object.hasOwn(value, "cost") ? parseCost(value.cost) : null;
  return {
    costMicros: cost?.micros ?? null,
    currency: cost?.currency ?? null,
    calls: Object.hasOwn(value, "calls") ? integer("`calls`", value.calls, 0, Number.MAX_SAFE_INTEGER) : null,
    rate: Object.hasOwn(value, "rate") ? parseRate(value.rate) : null,
  };
}

/** @param {unknown} value */
function parseRate(value) {
  if (!hasExactly(value, "calls", "seconds")) throw new BadBudget("`rate` has exactly `calls` and `seconds`");
  return {
    calls: integer("`calls` of `rate`", value.calls, 0, Number.MAX_SAFE_INTEGER),
    seconds: integer("`seconds` of `rate`", value.seconds, 1, MAX_SECONDS),
  };
}

/** @param {unknown} value */
function parseCost(value) {
  if (!hasExactly(value, "amount", "currency"))
    throw new BadBudget("`cost` has exactly `amount` and `currency`");
  const { amount, currency } = value;
  if (typeof currency !== "string" || !CURRENCY.test(currency)) {
    throw new BadBudget("`currency` is three to eight capital letters");
  }
  // Not a fraction of JSON: readers round those differently, and money is compared exactly.
  const text = isInteger(amount, 0, 10 ** 12 - 1) ? String(amount) : amount;
  const found = typeof text === "string" ? AMOUNT.exec(text) : null;
  if (found === null)
    throw new BadBudget("`amount` is a decimal string with at most six decimals, or an integer");
  const micros = BigInt(found[1] ?? "") * COST_SCALE + BigInt((found[2] ?? "").padEnd(6, "0"));
  return { micros, currency };
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {number} least
 * @param {number} most
 */
function integer(name, value, least, most) {
  if (!isInteger(value, least, most)) throw new BadBudget(`${name} is an integer from ${least} to ${most}`);
  return value;
}

/**
 * The first member of `parent` that `child` leaves out or raises; `null` when it implies them all. A rate is
 * tighter with no more calls in no less time: then whatever keeps it keeps the other.
 *
 * @param {Budget | null} child
 * @param {Budget | null} parent
 * @returns {string | null}
 */
export function widenedBudget(child, parent) {
  if (parent === null) return null;
  if (parent.costMicros !== null) {
    const mine = child?.costMicros ?? null;
    if (mine === null || child?.currency !== parent.currency || mine > parent.costMicros) return "cost";
  }
  if (parent.calls !== null) {
    const mine = child?.calls ?? null;
    if (mine === null || mine > parent.calls) return "calls";
  }
  if (parent.rate !== null) {
    const mine = child?.rate ?? null;
    if (mine === null || mine.calls > parent.rate.calls || mine.seconds < parent.rate.seconds) return "rate";
  }
  return null;
}
