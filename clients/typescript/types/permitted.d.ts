/**
 * What to tell of a call: what was said of it, or what its error means. Undeclared, an error of a tool that
 * may run twice means that it may be tried again; of any other one that it is not known what came of it.
 *
 * @param {Permitted} permitted
 * @param {{ error: unknown } | null} thrown
 * @param {Iterable<import("./guard.js").Failure>} failures
 * @returns {Ended}
 */
export function endedBy(permitted: Permitted, thrown: {
    error: unknown;
} | null, failures: Iterable<import("./guard.js").Failure>): Ended;
/**
 * What is told of a call that is over.
 *
 * @typedef {object} Ended
 * @property {import("./outcomes.js").OutcomeName} outcome
 * @property {string | null} externalId what the endpoint calls the effect
 * @property {string | null} resultDigest
 * @property {string} detail
 */
/**
 * An outcome that could not be told. The call is over all the same, and must not be repeated. With
 * `permitted.decision.decisionId`, `permitted.decision.lease.token` and `ended` it may be told later
 * (`Client.settle`); until then its operation becomes `unknown` when its lease ends.
 *
 * @typedef {object} Unsettled
 * @property {Permitted} permitted
 * @property {Ended} ended
 * @property {import("./errors.js").DecisionUnavailable} failure
 */
/** One call that may run now, once, with `arguments`: those that were judged, defaults included. */
export class Permitted {
    /**
     * @param {object} facts
     * @param {string} facts.tool
     * @param {Record<string, unknown>} facts.arguments
     * @param {import("./model.js").Decision | null} facts.decision
     * @param {string | null} facts.attempt
     * @param {boolean} facts.isSettled
     */
    constructor({ tool, arguments: judged, decision, attempt, isSettled }: {
        tool: string;
        arguments: Record<string, unknown>;
        decision: import("./model.js").Decision | null;
        attempt: string | null;
        isSettled: boolean;
    });
    /** `server/name` */
    tool: string;
    arguments: Record<string, unknown>;
    /**
     * `null` only where no decision was to be had and the tool may run all the same: see `Guard`,
     * `failOpenFor`.
     */
    decision: import("./model.js").Decision | null;
    attempt: string | null;
    /** Whether it is told how it ended. */
    isSettled: boolean;
    /** For the endpoint: the same for every try of this call. */
    get idempotencyKey(): string | null;
    /** For the endpoint, where one was asked for. */
    get ticket(): string | null;
    /** What was said of the end; `null` as long as nothing was. */
    get ended(): Ended | null;
    /**
     * It took effect. Told when the call is over; what is thrown afterwards does not change it.
     *
     * @param {{ externalId?: string | null, resultDigest?: string | null, detail?: string }} [told]
     */
    succeeded({ externalId, resultDigest, detail }?: {
        externalId?: string | null;
        resultDigest?: string | null;
        detail?: string;
    }): void;
    /**
     * It did not do what it should: `failed_retryable`, `failed_final`, or `unknown` if it may have.
     *
     * @param {import("./outcomes.js").OutcomeName} outcome
     * @param {{ externalId?: string | null, detail?: string }} [told]
     */
    failed(outcome: import("./outcomes.js").OutcomeName, { externalId, detail }?: {
        externalId?: string | null;
        detail?: string;
    }): void;
    #private;
}
/**
 * What is told of a call that is over.
 */
export type Ended = {
    outcome: import("./outcomes.js").OutcomeName;
    /**
     * what the endpoint calls the effect
     */
    externalId: string | null;
    resultDigest: string | null;
    detail: string;
};
/**
 * An outcome that could not be told. The call is over all the same, and must not be repeated. With
 * `permitted.decision.decisionId`, `permitted.decision.lease.token` and `ended` it may be told later
 * (`Client.settle`); until then its operation becomes `unknown` when its lease ends.
 */
export type Unsettled = {
    permitted: Permitted;
    ended: Ended;
    failure: import("./errors.js").DecisionUnavailable;
};
