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
export function parseBudget(value: unknown): Budget;
/**
 * The first member of `parent` that `child` leaves out or raises; `null` when it implies them all. A rate is
 * tighter with no more calls in no less time: then whatever keeps it keeps the other.
 *
 * @param {Budget | null} child
 * @param {Budget | null} parent
 * @returns {string | null}
 */
export function widenedBudget(child: Budget | null, parent: Budget | null): string | null;
/** A budget that is not understood, and so refuses the whole capability. */
export class BadBudget extends Error {
}
/**
 * `null` bounds nothing.
 */
export type Budget = {
    /**
     * millionths of `currency`, for the whole life of the link
     */
    costMicros: bigint | null;
    /**
     * ISO 4217 code, or a unit that the bundle uses
     */
    currency: string | null;
    /**
     * calls, for the whole life of the link
     */
    calls: number | null;
    /**
     * calls in any so many seconds
     */
    rate: {
        calls: number;
        seconds: number;
    } | null;
};
