/**
 * Where operations and approvals stand, as the client believes the service of it.
 *
 * @module
 */

import {
  anObject,
  each,
  instant,
  oneOf,
  optional,
  optionalBoolean,
  optionalInteger,
  optionalText,
  own,
  text,
} from "./members.js";

/** How far the one effect of a call has come (spec section 9). */
export const OperationState = Object.freeze(
  /** @type {const} */ ({
    REFUSED: "refused",
    WAITING: "waiting",
    RESERVED: "reserved",
    EXECUTING: "executing",
    SUCCEEDED: "succeeded",
    FAILED_RETRYABLE: "failed_retryable",
    FAILED_FINAL: "failed_final",
    /** Whether it took effect must be looked up: it is never tried again by itself. */
    UNKNOWN: "unknown",
    NOT_EXECUTED: "not_executed",
  }),
);

/** What may be told of an act that is over. */
export const Outcome = Object.freeze(
  /** @type {const} */ ({
    SUCCEEDED: "succeeded",
    /** It had no effect, or one that may be had twice. */
    FAILED_RETRYABLE: "failed_retryable",
    FAILED_FINAL: "failed_final",
    UNKNOWN: "unknown",
    /** It did not begin. */
    NOT_EXECUTED: "not_executed",
  }),
);

/** Where a request for an approval stands (spec section 8). Pending is not denied, nor is expired. */
export const ApprovalState = Object.freeze(
  /** @type {const} */ ({
    PENDING: "pending",
    APPROVED: "approved",
    DENIED: "denied",
    EXPIRED: "expired",
    CANCELLED: "cancelled",
    CONSUMED: "consumed",
    VOID: "void",
  }),
);

/** @typedef {typeof OperationState[keyof typeof OperationState]} OperationStateName */
/** @typedef {typeof Outcome[keyof typeof Outcome]} OutcomeName */
/** @typedef {typeof ApprovalState[keyof typeof ApprovalState]} ApprovalStateName */

/**
 * States in which the call may be sent again. Only the decision on it says whether it may run.
 *
 * @type {ReadonlySet<ApprovalStateName>}
 */
export const GRANTED = new Set([ApprovalState.APPROVED, ApprovalState.CONSUMED]);

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
export function standingFromJson(value) {
  const members = anObject(value, "operation");
  return Object.freeze({
    state: oneOf(members, "state", OperationState),
    settles: optionalBoolean(members, "settles"),
    decisionId: optionalText(members, "decision_id"),
    externalId: optionalText(members, "external_id"),
    resultDigest: optionalText(members, "result_digest"),
    settledAt: optional(members, "settled_at", instant),
  });
}

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
export function operationFromJson(value) {
  const members = anObject(value, "the operation");
  return Object.freeze({
    decisionId: text(members, "decision_id"),
    state: oneOf(members, "state", OperationState),
    settles: optionalBoolean(members, "settles"),
    ticketed: optionalBoolean(members, "ticketed"),
    cancelRequested: optionalBoolean(members, "cancel_requested"),
    contradicted: optionalBoolean(members, "contradicted"),
    tool: text(members, "tool"),
    traceId: optionalText(members, "trace_id"),
    turnId: optionalText(members, "turn_id"),
    toolCallId: optionalText(members, "tool_call_id"),
    leaseExpiresAt: optional(members, "lease_expires_at", instant),
    externalId: optionalText(members, "external_id"),
    resultDigest: optionalText(members, "result_digest"),
    settledAt: optional(members, "settled_at", instant),
    supersededBy: optionalText(members, "superseded_by"),
  });
}

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
export function approvalStatusFromJson(value) {
  const members = anObject(value, "the approval");
  const denial = own(members, "denial");
  return Object.freeze({
    id: text(members, "id"),
    state: oneOf(members, "state", ApprovalState),
    version: optionalInteger(members, "version") ?? 0,
    url: optionalText(members, "url"),
    expiresAt: optional(members, "expires_at", instant),
    decisionId: optionalText(members, "decision_id"),
    tool: optionalText(members, "tool"),
    rules: each(members, "asked_by", (item) => {
      const rule = anObject(item, "asked_by");
      return Object.freeze({ rule: text(rule, "rule"), reason: optionalText(rule, "reason") ?? "" });
    }),
    denialReason: denial === null ? null : optionalText(anObject(denial, "denial"), "reason"),
  });
}
