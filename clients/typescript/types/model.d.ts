/**
 * Read a decision from a parsed body (spec section 11). Members that this version does not know are ignored.
 *
 * @param {unknown} value
 * @param {object} asked
 * @param {Date} asked.now
 * @param {boolean} [asked.isDryRun] the request said `"dry_run": true`
 * @param {string} [asked.requestDigest] of the request, which an answer must be to
 * @returns {Decision}
 * @throws {MalformedAnswer} for missing members, wrong types, an unknown effect or obligation, an answer to
 *   another request, and for an allow that names no expiry or fingerprint, has expired, or holds an access
 *   not allowed
 */
export function decisionFromJson(value: unknown, { now, isDryRun, requestDigest }: {
    now: Date;
    isDryRun?: boolean | undefined;
    requestDigest?: string | undefined;
}): Decision;
/** What the runtime may do with the call. */
export const Effect: Readonly<{
    readonly ALLOW: "allow";
    readonly REQUIRE_APPROVAL: "require_approval";
    readonly DENY: "deny";
}>;
/** What an allow is bound to. The set is closed: an allow with an unknown one must not run. */
export const Obligation: Readonly<{
    readonly SNAPSHOT_BEFORE: "snapshot_before";
    readonly VERIFY_IDENTITY: "verify_identity";
    readonly SETTLE_BEFORE_RETRY: "settle_before_retry";
    readonly FILTER_RESULTS: "filter_results";
    readonly LOG_LOCALLY: "log_locally";
    readonly PROBE_BEFORE: "probe_before";
}>;
/** @typedef {typeof Effect[keyof typeof Effect]} EffectName */
/** @typedef {typeof Obligation[keyof typeof Obligation]} ObligationName */
/**
 * A rule that determined the effect, by the name that its author gave it.
 *
 * @typedef {Readonly<{ rule: string, kind: string, file: string | null, line: number | null, reason: string
 *   }>} MatchedRule
 */
/**
 * One canonical (verb, resource, scope) that the call would exercise, and its own effect.
 *
 * @typedef {object} Access
 * @property {string} verb
 * @property {string} resource
 * @property {string} uri
 * @property {string} scope
 * @property {string} authority
 * @property {EffectName} effect
 * @property {readonly string[]} rules
 * @property {string | null} pattern of a tree: the access is only to what matches beneath its resource
 */
/**
 * The approval that a call waits for.
 *
 * @typedef {Readonly<{ id: string, state: string, url: string | null, expiresAt: Date | null }>} Approval
 */
/**
 * One fault of the arguments, in words that a model can act on. `pointer` is a JSON Pointer into the
 * arguments.
 *
 * @typedef {Readonly<{ pointer: string, found: string, expected: string, message: string }>} ArgumentError
 */
/**
 * Which link of the presented chain refused a call, by which rule. With a code `capability.…`.
 *
 * @typedef {object} CapabilityRefusal
 * @property {string} reason
 * @property {number | null} link 0 for the root; `null` where it is none of them
 * @property {string | null} agent who holds that link, where its signature holds
 * @property {string | null} component `R` (rights), `O` (objects), `P` (predicate) or `E` (expiry)
 */
/** The right to run an allowed call, and to settle it, until it ends. */
export class Lease {
    /**
     * @param {string} token
     * @param {Date} expiresAt
     */
    constructor(token: string, expiresAt: Date);
    expiresAt: Date;
    /** A secret, and so no property: it is in no log. */
    get token(): string;
    #private;
}
/** The answer to one call. What the service left out is `null`, false or empty. */
export class Decision {
    /**
     * Use `decisionFromJson`.
     *
     * @param {import("./members.js").Members} members
     */
    constructor(members: import("./members.js").Members);
    decisionId: string;
    effect: "allow" | "require_approval" | "deny";
    /** The stage that settled the effect. */
    stage: string;
    code: string;
    matched: readonly Readonly<{
        rule: string;
        kind: string;
        file: string | null;
        line: number | null;
        reason: string;
    }>[];
    /** For a refusal: words that a model can use. */
    message: string;
    /** What may be tried after a refusal. */
    next: readonly string[];
    retryUnchanged: boolean;
    /** When an unchanged retry can help, in milliseconds from this answer. */
    retryAfterMs: number | null;
    /** What is wrong with the arguments. */
    errors: readonly Readonly<{
        pointer: string;
        found: string;
        expected: string;
        message: string;
    }>[];
    expiresAt: Date | null;
    fingerprint: string | null;
    requestDigest: string | null;
    /** The highest of its accesses': `A0` (changes nothing) to `A3`. */
    authority: string | null;
    /** `none`, `idempotent` or `cumulative`: whether the call may run twice. */
    sideEffect: string | null;
    accesses: readonly Readonly<Access>[];
    /** Those that were judged, defaults included: these are to run, not the proposed ones. */
    arguments: import("./members.js").Members | null;
    obligations: readonly ObligationName[];
    idempotencyKey: string | null;
    lease: Lease | null;
    approval: Readonly<{
        id: string;
        state: string;
        url: string | null;
        expiresAt: Date | null;
    }> | null;
    policyVersion: string | null;
    /** What the answer would be. Nothing was reserved, so nothing may run on it. */
    dryRun: boolean;
    /** The call was allowed before. This is that permission, not a second one. */
    repeated: boolean;
    /** Where the operation of the call stands; of one that ran before, what came of it. */
    operation: Readonly<import("./outcomes.js").Standing> | null;
    /** In a batch: indices of calls that touch a resource which this call or the other one writes. */
    sharesWrittenResourceWith: readonly number[];
    capability: Readonly<CapabilityRefusal> | null;
    /** With an allow, where it was asked for: what the tool server verifies. No property: it is in no log. */
    get ticket(): string | null;
    /** Whether the call may run, until `expiresAt` and with every obligation met. */
    get allowed(): boolean;
    #private;
}
export type EffectName = (typeof Effect)[keyof typeof Effect];
export type ObligationName = (typeof Obligation)[keyof typeof Obligation];
/**
 * A rule that determined the effect, by the name that its author gave it.
 */
export type MatchedRule = Readonly<{
    rule: string;
    kind: string;
    file: string | null;
    line: number | null;
    reason: string;
}>;
/**
 * One canonical (verb, resource, scope) that the call would exercise, and its own effect.
 */
export type Access = {
    verb: string;
    resource: string;
    uri: string;
    scope: string;
    authority: string;
    effect: EffectName;
    rules: readonly string[];
    /**
     * of a tree: the access is only to what matches beneath its resource
     */
    pattern: string | null;
};
/**
 * The approval that a call waits for.
 */
export type Approval = Readonly<{
    id: string;
    state: string;
    url: string | null;
    expiresAt: Date | null;
}>;
/**
 * One fault of the arguments, in words that a model can act on. `pointer` is a JSON Pointer into the
 * arguments.
 */
export type ArgumentError = Readonly<{
    pointer: string;
    found: string;
    expected: string;
    message: string;
}>;
/**
 * Which link of the presented chain refused a call, by which rule. With a code `capability.…`.
 */
export type CapabilityRefusal = {
    reason: string;
    /**
     * 0 for the root; `null` where it is none of them
     */
    link: number | null;
    /**
     * who holds that link, where its signature holds
     */
    agent: string | null;
    /**
     * `R` (rights), `O` (objects), `P` (predicate) or `E` (expiry)
     */
    component: string | null;
};
