/**
 * The body of `POST /decide` (spec section 11): names as on the wire.
 *
 * @typedef {object} DecideRequest
 * @property {{ agent: string, on_behalf_of?: string, session?: string, parent_agent?: string }} subject
 * @property {{ server: string, name: string, advertised_digest?: string }} tool
 * @property {Readonly<Record<string, unknown>>} arguments integers beyond ±(2^53−1) are refused: send them as
 *   strings
 * @property {Readonly<Record<string, Readonly<Record<string, unknown>>>>} [provenance] by JSON Pointer
 * @property {Readonly<Record<string, unknown>>} [context]
 * @property {boolean} [dry_run]
 * @property {readonly string[]} [capability]
 * @property {string} [proof]
 * @property {boolean} [ticket]
 */
/**
 * @typedef {object} ClientOptions
 * @property {string} apiKey
 * @property {number} [deadlineSeconds] of a request with all its repeats: connection, answer and body as a
 *   whole
 * @property {number} [attempts] how often what is safe to send again unchanged is sent
 * @property {typeof globalThis.fetch} [fetch] in place of the platform's
 * @property {() => Date} [clock] what an allow's expiry is held against
 */
/**
 * @typedef {{ signal?: AbortSignal | undefined }} CallOptions `signal` ends the wait, which is `Aborted` then
 */
/**
 * Asks one service. May be shared; the platform's `fetch` keeps its connections. Redirects are not followed.
 * Every failure to get an answer is a `DecisionUnavailable`, thrown as one of its subclasses.
 */
export class Client {
    /**
     * @param {string} baseUrl absolute, http or https
     * @param {ClientOptions} options
     */
    constructor(baseUrl: string, { apiKey, deadlineSeconds, attempts, fetch, clock }: ClientOptions);
    /** What an allow's expiry is held against. */
    now(): Date;
    /**
     * The decision on one call. Where no answer came it is sent again unchanged, if `context` has all three ids
     * and no proof is with it.
     *
     * @param {DecideRequest} request
     * @param {CallOptions} [options]
     * @returns {Promise<import("./model.js").Decision>}
     * @throws {DecisionUnavailable}
     */
    decide(request: DecideRequest, { signal }?: CallOptions): Promise<import("./model.js").Decision>;
    /**
     * The decisions on several calls, in order; the place of a call without one says why.
     *
     * @param {readonly DecideRequest[]} requests
     * @param {CallOptions} [options]
     * @returns {Promise<readonly (import("./model.js").Decision | DecisionUnavailable)[]>}
     * @throws {DecisionUnavailable} when there is no answer at all
     */
    decideBatch(requests: readonly DecideRequest[], { signal }?: CallOptions): Promise<readonly (import("./model.js").Decision | DecisionUnavailable)[]>;
    /**
     * Where the operation of a decision stands.
     *
     * @param {string} decisionId
     * @param {CallOptions} [options]
     */
    operation(decisionId: string, options?: CallOptions): Promise<Readonly<import("./outcomes.js").Operation>>;
    /**
     * The act begins now. `attempt` is the runtime's own name for this one try. A `RequestRefused` with status
     * 409: it must not begin; `code` and `state` say why.
     *
     * @param {string} decisionId
     * @param {{ leaseToken: string, attempt: string, timeoutSeconds?: number | undefined }} act
     * @param {CallOptions} [options]
     */
    start(decisionId: string, { leaseToken, attempt, timeoutSeconds }: {
        leaseToken: string;
        attempt: string;
        timeoutSeconds?: number | undefined;
    }, options?: CallOptions): Promise<Readonly<import("./outcomes.js").Operation>>;
    /**
     * How the act ended. The same report may be sent again; another is refused with status 409.
     *
     * @param {string} decisionId
     * @param {object} report
     * @param {string} report.leaseToken
     * @param {import("./outcomes.js").OutcomeName} report.outcome
     * @param {string | null | undefined} [report.externalId] what the endpoint calls the effect
     * @param {string | null | undefined} [report.resultDigest]
     * @param {string | undefined} [report.detail]
     * @param {CallOptions} [options]
     */
    settle(decisionId: string, { leaseToken, outcome, externalId, resultDigest, detail }: {
        leaseToken: string;
        outcome: import("./outcomes.js").OutcomeName;
        externalId?: string | null | undefined;
        resultDigest?: string | null | undefined;
        detail?: string | undefined;
    }, options?: CallOptions): Promise<Readonly<import("./outcomes.js").Operation>>;
    /**
     * What was found out about an operation that is `unknown`: `succeeded` or `not_executed`. With a credential
     * that may, never the one that asked for the decision.
     *
     * @param {string} decisionId
     * @param {object} found
     * @param {import("./outcomes.js").OutcomeName} found.outcome
     * @param {string} found.reason
     * @param {string | null | undefined} [found.externalId]
     * @param {string | null | undefined} [found.resultDigest]
     * @param {CallOptions} [options]
     */
    resolve(decisionId: string, { outcome, reason, externalId, resultDigest }: {
        outcome: import("./outcomes.js").OutcomeName;
        reason: string;
        externalId?: string | null | undefined;
        resultDigest?: string | null | undefined;
    }, options?: CallOptions): Promise<Readonly<import("./outcomes.js").Operation>>;
    /**
     * Ask that the act does not happen. What has begun goes on until its runtime settles it.
     *
     * @param {string} decisionId
     * @param {{ reason?: string }} [why]
     * @param {CallOptions} [options]
     */
    cancelOperation(decisionId: string, { reason }?: {
        reason?: string;
    }, options?: CallOptions): Promise<Readonly<import("./outcomes.js").Operation>>;
    /**
     * Where a request for an approval stands.
     *
     * @param {string} approvalId
     * @param {CallOptions} [options]
     */
    approval(approvalId: string, options?: CallOptions): Promise<Readonly<import("./outcomes.js").ApprovalStatus>>;
    /**
     * Wait until somebody has answered, at most so long: then it is `pending` still. It waits on while the
     * service restarts. Then send the same call with the same ids: a yes that was given is judged there once
     * more.
     *
     * @param {string} approvalId
     * @param {{ deadlineSeconds: number } & CallOptions} options
     * @returns {Promise<Readonly<import("./outcomes.js").ApprovalStatus>>}
     */
    waitForApproval(approvalId: string, { deadlineSeconds, signal }: {
        deadlineSeconds: number;
    } & CallOptions): Promise<Readonly<import("./outcomes.js").ApprovalStatus>>;
    /**
     * Take a request back that this credential asked for.
     *
     * @param {string} approvalId
     * @param {CallOptions} [options]
     */
    cancelApproval(approvalId: string, { signal }?: CallOptions): Promise<Readonly<import("./outcomes.js").ApprovalStatus>>;
    #private;
}
/**
 * The body of `POST /decide` (spec section 11): names as on the wire.
 */
export type DecideRequest = {
    subject: {
        agent: string;
        on_behalf_of?: string;
        session?: string;
        parent_agent?: string;
    };
    tool: {
        server: string;
        name: string;
        advertised_digest?: string;
    };
    /**
     * integers beyond ±(2^53−1) are refused: send them as
     * strings
     */
    arguments: Readonly<Record<string, unknown>>;
    /**
     * by JSON Pointer
     */
    provenance?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    context?: Readonly<Record<string, unknown>>;
    dry_run?: boolean;
    capability?: readonly string[];
    proof?: string;
    ticket?: boolean;
};
export type ClientOptions = {
    apiKey: string;
    /**
     * of a request with all its repeats: connection, answer and body as a
     * whole
     */
    deadlineSeconds?: number;
    /**
     * how often what is safe to send again unchanged is sent
     */
    attempts?: number;
    /**
     * in place of the platform's
     */
    fetch?: typeof globalThis.fetch;
    /**
     * what an allow's expiry is held against
     */
    clock?: () => Date;
};
/**
 * `signal` ends the wait, which is `Aborted` then
 */
export type CallOptions = {
    signal?: AbortSignal | undefined;
};
import { DecisionUnavailable } from "./errors.js";
