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
export function parseEntries(details: unknown): readonly Entry[] | Refusal;
/**
 * What of `child` is not in `parent`, the first of R, O, P; `null` when child ⪯ parent.
 *
 * @param {Entry} child
 * @param {Entry} parent
 * @returns {{ component: import("./reasons.js").Component, detail: string } | null}
 */
export function widening(child: Entry, parent: Entry): {
    component: import("./reasons.js").Component;
    detail: string;
} | null;
/**
 * For each child entry, the first parent entry that it fits under; or what widened. Where it fits under none,
 * the refusal is about the parent entry that it comes nearest to: the one that gives it its rights, then its
 * objects.
 *
 * @param {readonly Entry[]} children
 * @param {readonly Entry[]} parents
 * @returns {readonly number[] | Refusal}
 */
export function fit(children: readonly Entry[], parents: readonly Entry[]): readonly number[] | Refusal;
export const DETAIL_TYPE: "agent_tool_call";
/**
 * One element of `authorization_details`, in parsed form.
 */
export type Entry = {
    rights: readonly import("./rights.js").Right[];
    locations: readonly import("./objects.js").CanonicalObject[];
    /**
     * by JSON Pointer
     */
    conditions: ReadonlyMap<string, import("./constraints.js").Condition>;
    budget: import("./budgets.js").Budget | null;
    rightKeys: ReadonlySet<string>;
    locationKeys: ReadonlySet<string>;
    /**
     * as it stood in the token
     */
    json: Record<string, any>;
};
/**
 * One element of `authorization_details`, as it is written.
 */
export type EntryJson = {
    type: "agent_tool_call";
    /**
     * verbs, tools, or `tool:verb`
     */
    actions: readonly string[];
    /**
     * canonical URIs
     */
    locations: readonly string[];
    constraints?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    budget?: Readonly<Record<string, unknown>>;
};
import { Refusal } from "./reasons.js";
