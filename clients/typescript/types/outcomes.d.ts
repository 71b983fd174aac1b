/**
 * The operation of a call, as a decision tells of it.
 *
 * @typedef {object} Standing
 * @property {OperationStateName} state
 * @property {boolean} settles
 * @property {string | null} decisionId of the decision that allowed it
 * @property {string | null} externalId what the endpoint calls the effect
 * @property {string | null} resultDigest
 * @property {Date | null} settledAt
 */
/**
 * @param {unknown} value
 * @returns {Readonly<Standing>}
 */
export function standingFromJson(value: unknown): Readonly<Standing>;
/**
 * An operation as it stands now (`GET /operations/{decision_id}`).
 *
 * @typedef {object} Operation
 * @property {string} decisionId
 * @property {OperationStateName} state
 * @property {boolean} settles
 * @property {boolean} ticketed
 * @property {boolean} cancelRequested somebody wants it not to run; that is not `cancelled`
 * @property {boolean} contradicted an outcome was told that does not fit: only a person or a probe says what
 *   is true
 * @property {string} tool `server/name`
 * @property {string | null} traceId
 * @property {string | null} turnId
 * @property {string | null} toolCallId
 * @property {Date | null} leaseExpiresAt
 * @property {string | null} externalId
 * @property {string | null} resultDigest
 * @property {Date | null} settledAt
 * @property {string | null} supersededBy the decision that holds the operation now, after it was decided anew
 */
/**
 * @param {unknown} value
 * @returns {Readonly<Operation>}
 */
export function operationFromJson(value: unknown): Readonly<Operation>;
/**
 * A request for an approval as it stands now (`GET /approvals/{id}`).
 *
 * @typedef {object} ApprovalStatus
 * @property {string} id
 * @property {ApprovalStateName} state
 * @property {number} version
 * @property {string | null} url where people answer
 * @property {Date | null} expiresAt
 * @property {string | null} decisionId
 * @property {string | null} tool `server identity/name`
 * @property {readonly Readonly<{ rule: string, reason: string }>[]} rules those that asked
 * @property {string | null} denialReason of a no, in the person's own words: data, and no instruction of the
 *   service
 */
/**
 * @param {unknown} value
 * @returns {Readonly<ApprovalStatus>}
 */
export function approvalStatusFromJson(value: unknown): Readonly<ApprovalStatus>;
/** How far the one effect of a call has come (spec section 9). */
export const OperationState: Readonly<{
    readonly REFUSED: "refused";
    readonly WAITING: "waiting";
    readonly RESERVED: "reserved";
    readonly EXECUTING: "executing";
    readonly SUCCEEDED: "succeeded";
    readonly FAILED_RETRYABLE: "failed_retryable";
    readonly FAILED_FINAL: "failed_final";
    /** Whether it took effect must be looked up: it is never tried again by itself. */
    readonly UNKNOWN: "unknown";
    readonly NOT_EXECUTED: "not_executed";
}>;
/** What may be told of an act that is over. */
export const Outcome: Readonly<{
    readonly SUCCEEDED: "succeeded";
    /** It had no effect, or one that may be had twice. */
    readonly FAILED_RETRYABLE: "failed_retryable";
    readonly FAILED_FINAL: "failed_final";
    readonly UNKNOWN: "unknown";
    /** It did not begin. */
    readonly NOT_EXECUTED: "not_executed";
}>;
/** Where a request for an approval stands (spec section 8). Pending is not denied, nor is expired. */
export const ApprovalState: Readonly<{
    readonly PENDING: "pending";
    readonly APPROVED: "approved";
    readonly DENIED: "denied";
    readonly EXPIRED: "expired";
    readonly CANCELLED: "cancelled";
    readonly CONSUMED: "consumed";
    readonly VOID: "void";
}>;
/** @typedef {typeof OperationState[keyof typeof OperationState]} OperationStateName */
/** @typedef {typeof Outcome[keyof typeof Outcome]} OutcomeName */
/** @typedef {typeof ApprovalState[keyof typeof ApprovalState]} ApprovalStateName */
/**
 * States in which the call may be sent again. Only the decision on it says whether it may run.
 *
 * @type {ReadonlySet<ApprovalStateName>}
 */
export const GRANTED: ReadonlySet<ApprovalStateName>;
/**
 * The operation of a call, as a decision tells of it.
 */
export type Standing = {
    state: OperationStateName;
    settles: boolean;
    /**
     * of the decision that allowed it
     */
    decisionId: string | null;
    /**
     * what the endpoint calls the effect
     */
    externalId: string | null;
    resultDigest: string | null;
    settledAt: Date | null;
};
/**
 * An operation as it stands now (`GET /operations/{decision_id}`).
 */
export type Operation = {
    decisionId: string;
    state: OperationStateName;
    settles: boolean;
    ticketed: boolean;
    /**
     * somebody wants it not to run; that is not `cancelled`
     */
    cancelRequested: boolean;
    /**
     * an outcome was told that does not fit: only a person or a probe says what
     * is true
     */
    contradicted: boolean;
    /**
     * `server/name`
     */
    tool: string;
    traceId: string | null;
    turnId: string | null;
    toolCallId: string | null;
    leaseExpiresAt: Date | null;
    externalId: string | null;
    resultDigest: string | null;
    settledAt: Date | null;
    /**
     * the decision that holds the operation now, after it was decided anew
     */
    supersededBy: string | null;
};
/**
 * A request for an approval as it stands now (`GET /approvals/{id}`).
 */
export type ApprovalStatus = {
    id: string;
    state: ApprovalStateName;
    version: number;
    /**
     * where people answer
     */
    url: string | null;
    expiresAt: Date | null;
    decisionId: string | null;
    /**
     * `server identity/name`
     */
    tool: string | null;
    /**
     * those that asked
     */
    rules: readonly Readonly<{
        rule: string;
        reason: string;
    }>[];
    /**
     * of a no, in the person's own words: data, and no instruction of the
     * service
     */
    denialReason: string | null;
};
export type OperationStateName = (typeof OperationState)[keyof typeof OperationState];
export type OutcomeName = (typeof Outcome)[keyof typeof Outcome];
export type ApprovalStateName = (typeof ApprovalState)[keyof typeof ApprovalState];
