/**
 * A call that may run now, and how it ended.
 *
 * @module
 */

import { Outcome } from "./outcomes.js";

/** @type {ReadonlySet<string>} */
const FAILURES = new Set([Outcome.FAILED_RETRYABLE, Outcome.FAILED_FINAL, Outcome.UNKNOWN]);

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
  /** @type {Ended | null} */
  #ended = null;

  /**
   * @param {object} facts
   * @param {string} facts.tool
   * @param {Record<string, unknown>} facts.arguments
   * @param {import("./model.js").Decision | null} facts.decision
   * @param {string | null} facts.attempt
   * @param {boolean} facts.isSettled
   */
  constructor({ tool, arguments: judged, decision, attempt, isSettled }) {
    /** `server/name` */
    this.tool = tool;
    this.arguments = judged;
    /**
     * `null` only where no decision was to be had and the tool may run all the same: see `Guard`,
     * `failOpenFor`.
     */
    this.decision = decision;
    this.attempt = attempt;
    /** Whether it is told how it ended. */
    this.isSettled = isSettled;
    Object.freeze(this);
  }

  /** For the endpoint: the same for every try of this call. */
  get idempotencyKey() {
    return this.decision?.idempotencyKey ?? null;
  }

  /** For the endpoint, where one was asked for. */
  get ticket() {
    return this.decision?.ticket ?? null;
  }

  /** What was said of the end; `null` as long as nothing was. */
  get ended() {
    return this.#ended;
  }

  /**
   * It took effect. Told when the call is over; what is thrown afterwards does not change it.
   *
   * @param {{ externalId?: string | null, resultDigest?: string | null, detail?: string }} [told]
   */
  succeeded({ externalId = null, resultDigest = null, detail = "" } = {}) {
    this.#ended = { outcome: Outcome.SUCCEEDED, externalId, resultDigest, detail };
  }

  /**
   * It did not do what it should: `failed_retryable`, `failed_final`, or `unknown` if it may have.
   *
   * @param {import("./outcomes.js").OutcomeName} outcome
   * @param {{ externalId?: string | null, detail?: string }} [told]
   */
  failed(outcome, { externalId = null, detail = "" } = {}) {
    if (!FAILURES.has(outcome)) {
      throw new TypeError(`\`${outcome}\` is no failure: use one of ${[...FAILURES].join(", ")}`);
    }
    this.#ended = { outcome, externalId, resultDigest: null, detail };
  }
}

/**
 * What to tell of a call: what was said of it, or what its error means. Undeclared, an error of a tool that
 * may run twice means that it may be tried again; of any other one that it is not known what came of it.
 *
 * @param {Permitted} permitted
 * @param {{ error: unknown } | null} thrown
 * @param {Iterable<import("./guard.js").Failure>} failures
 * @returns {Ended}
 */
export function endedBy(permitted, thrown, failures) {
  if (permitted.ended !== null) return permitted.ended;
  const told = { externalId: null, resultDigest: null };
  if (thrown === null) return { ...told, outcome: Outcome.SUCCEEDED, detail: "" };
  const { error } = thrown;
  const detail = error instanceof Error ? error.name : typeof error;
  for (const [kind, outcome] of failures) {
    if (error instanceof kind) return { ...told, outcome, detail };
  }
  const mayRunTwice = ["none", "idempotent"].includes(permitted.decision?.sideEffect ?? "");
  return { ...told, outcome: mayRunTwice ? Outcome.FAILED_RETRYABLE : Outcome.UNKNOWN, detail };
}
