/**
 * The condition on one argument.
 *
 * @param {string} key
 * @param {unknown} members
 * @returns {Condition}
 * @throws {BadConstraint} also for an unknown member: it is not skipped
 */
export function parseCondition(key: string, members: unknown): Condition;
/**
 * The first member of `parent` that `child` leaves out or loosens; `null` when it implies them all.
 *
 * @param {Condition | undefined} child
 * @param {Condition} parent
 * @returns {string | null}
 */
export function widenedMember(child: Condition | undefined, parent: Condition): string | null;
/**
 * The first member that `argumentsOfTool` do not meet; `null` when all hold.
 *
 * @param {Condition} condition
 * @param {unknown} argumentsOfTool
 * @param {(pointer: string, value: unknown) => readonly string[] | null} named the canonical URIs that the
 *   argument at a pointer names, `null` when it names none
 * @returns {string | null}
 */
export function unmetMember(condition: Condition, argumentsOfTool: unknown, named: (pointer: string, value: unknown) => readonly string[] | null): string | null;
/**
 * Equality of JSON values.
 *
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
export function sameJson(one: any, other: any): boolean;
/** A constraint that is not understood, and so refuses the whole capability. Says which rule it breaks. */
export class BadConstraint extends Error {
}
/**
 * The members for one argument, in parsed form.
 */
export type Condition = {
    /**
     * JSON Pointer; the key `path` is `/path`
     */
    pointer: string;
    members: Readonly<Record<string, any>>;
    within: readonly import("./objects.js").CanonicalObject[];
    withinKeys: ReadonlySet<string>;
    /**
     * RFC 8785 forms: equal where the values are
     */
    oneOf: ReadonlySet<string>;
};
