/**
 * The client: asks for decisions and tells what became of them. Holds no policy of its own.
 *
 * @module
 */

import { NotCanonical, canonicalJson } from "./canonical-json.js";
import { requestDigest } from "./digests.js";
import {
  DecisionUnavailable,
  MalformedAnswer,
  RequestNotEncodable,
  RequestRefused,
  ServerFailure,
  Timeout,
  Unreachable,
} from "./errors.js";
import { FIRST_PAUSE_MS, answered, pause, refuse } from "./exchange.js";
import { anObject, own } from "./members.js";
import { decisionFromJson } from "./model.js";
import { ApprovalState, Outcome, approvalStatusFromJson, operationFromJson } from "./outcomes.js";

const DEFAULT_DEADLINE_SECONDS = 5;
const DEFAULT_ATTEMPTS = 3;
/** The service holds an answer back for at most 55 seconds. */
const MAX_POLL_SECONDS = 50;
const LAST_PAUSE_MS = 2_000;
/** A service that does not hold the answer back is not asked in a tight loop. */
const MIN_ROUND_MS = 250;
const IDS = ["trace_id", "turn_id", "tool_call_id"];

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
  /** @type {import("./exchange.js").Terms} */
  #terms;
  /** @type {() => Date} */
  #clock;

  /**
   * @param {string} baseUrl absolute, http or https
   * @param {ClientOptions} options
   */
  constructor(
    baseUrl,
    { apiKey, deadlineSeconds = DEFAULT_DEADLINE_SECONDS, attempts = DEFAULT_ATTEMPTS, fetch, clock },
  ) {
    if (!(deadlineSeconds > 0 && deadlineSeconds < Infinity)) {
      throw new RangeError("`deadlineSeconds` must be positive and finite");
    }
    if (!Number.isSafeInteger(attempts) || attempts < 1)
      throw new RangeError("`attempts` must be at least 1");
    this.#terms = {
      baseUrl: checkedBaseUrl(baseUrl),
      headers: headersWith(apiKey),
      deadlineSeconds,
      attempts,
      fetch: fetch ?? ((...request) => globalThis.fetch(...request)),
    };
    this.#clock = clock ?? (() => new Date());
  }

  /** What an allow's expiry is held against. */
  now() {
    return this.#clock();
  }

  /**
   * The decision on one call. Where no answer came it is sent again unchanged, if `context` has all three ids
   * and no proof is with it.
   *
   * @param {DecideRequest} request
   * @param {CallOptions} [options]
   * @returns {Promise<import("./model.js").Decision>}
   * @throws {DecisionUnavailable}
   */
  async decide(request, { signal } = {}) {
    const body = encode(request);
    // Kept from before the answer, so that the caller's object may change meanwhile.
    const expected = await expectedOf(request);
    const ask = { path: "/decide", body, isRepeatable: isRepeatable(request) };
    const value = await answered(ask, this.#terms, signal);
    // The clock is read after the answer came: an allow may have expired on its way.
    return decisionFromJson(value, { ...expected, now: this.#clock() });
  }

  /**
   * The decisions on several calls, in order; the place of a call without one says why.
   *
   * @param {readonly DecideRequest[]} requests
   * @param {CallOptions} [options]
   * @returns {Promise<readonly (import("./model.js").Decision | DecisionUnavailable)[]>}
   * @throws {DecisionUnavailable} when there is no answer at all
   */
  async decideBatch(requests, { signal } = {}) {
    const body = encode({ calls: requests });
    const expected = await Promise.all(requests.map(expectedOf));
    const ask = { path: "/decide/batch", body, isRepeatable: requests.every(isRepeatable) };
    const answers = own(anObject(await answered(ask, this.#terms, signal), "the answer"), "decisions");
    if (!Array.isArray(answers) || answers.length !== expected.length) {
      throw new MalformedAnswer("`decisions` must be an array with one answer for each call");
    }
    const now = this.#clock();
    return expected.map((one, index) => ofBatch(answers[index], { ...one, now }));
  }

  /**
   * Where the operation of a decision stands.
   *
   * @param {string} decisionId
   * @param {CallOptions} [options]
   */
  async operation(decisionId, options) {
    return this.#operation(decisionId, "", null, options);
  }

  /**
   * The act begins now. `attempt` is the runtime's own name for this one try. A `RequestRefused` with status
   * 409: it must not begin; `code` and `state` say why.
   *
   * @param {string} decisionId
   * @param {{ leaseToken: string, attempt: string, timeoutSeconds?: number | undefined }} act
   * @param {CallOptions} [options]
   */
  async start(decisionId, { leaseToken, attempt, timeoutSeconds }, options) {
    const body = { lease_token: leaseToken, attempt, timeout_seconds: timeoutSeconds };
    return this.#operation(decisionId, "/start", body, options);
  }

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
  async settle(decisionId, { leaseToken, outcome, externalId, resultDigest, detail }, options) {
    const body = {
      lease_token: leaseToken,
      ...outcomeBody(outcome, externalId, resultDigest),
      detail: detail || undefined,
    };
    return this.#operation(decisionId, "/settle", body, options);
  }

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
  async resolve(decisionId, { outcome, reason, externalId, resultDigest }, options) {
    return this.#operation(
      decisionId,
      "/resolve",
      { ...outcomeBody(outcome, externalId, resultDigest), reason },
      options,
    );
  }

  /**
   * Ask that the act does not happen. What has begun goes on until its runtime settles it.
   *
   * @param {string} decisionId
   * @param {{ reason?: string }} [why]
   * @param {CallOptions} [options]
   */
  async cancelOperation(decisionId, { reason = "" } = {}, options = {}) {
    return this.#operation(decisionId, "/cancel", { reason }, options);
  }

  /**
   * Where a request for an approval stands.
   *
   * @param {string} approvalId
   * @param {CallOptions} [options]
   */
  async approval(approvalId, options) {
    return this.#approval(approvalId, 0, options);
  }

  /**
   * Wait until somebody has answered, at most so long: then it is `pending` still. It waits on while the
   * service restarts. Then send the same call with the same ids: a yes that was given is judged there once
   * more.
   *
   * @param {string} approvalId
   * @param {{ deadlineSeconds: number } & CallOptions} options
   * @returns {Promise<Readonly<import("./outcomes.js").ApprovalStatus>>}
   */
  async waitForApproval(approvalId, { deadlineSeconds, signal }) {
    const endsAt = performance.now() + deadlineSeconds * 1000;
    const leftMs = () => Math.max(0, endsAt - performance.now());
    let pauseMs = FIRST_PAUSE_MS;
    for (;;) {
      const begun = performance.now();
      const pollSeconds = Math.min(MAX_POLL_SECONDS, Math.floor(leftMs() / 1000));
      try {
        const status = await this.#approval(approvalId, pollSeconds, { signal });
        if (status.state !== ApprovalState.PENDING || leftMs() === 0) return status;
        pauseMs = FIRST_PAUSE_MS;
        if (performance.now() - begun < MIN_ROUND_MS) await pause(Math.min(MIN_ROUND_MS, leftMs()), signal);
      } catch (failure) {
        if (!mayPass(failure) || leftMs() === 0) throw failure;
        await pause(Math.min(pauseMs, leftMs()), signal);
        pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS);
      }
    }
  }

  /**
   * Take a request back that this credential asked for.
   *
   * @param {string} approvalId
   * @param {CallOptions} [options]
   */
  async cancelApproval(approvalId, { signal } = {}) {
    const ask = { path: `/approvals/${segment(approvalId)}/cancel`, method: /** @type {const} */ ("POST") };
    return approvalOf(approvalId, await answered(ask, this.#terms, signal));
  }

  /**
   * @param {string} decisionId
   * @param {string} what
   * @param {object | null} body
   * @param {CallOptions} [options]
   * @returns {Promise<Readonly<import("./outcomes.js").Operation>>}
   */
  async #operation(decisionId, what, body, { signal } = {}) {
    const path = `/operations/${segment(decisionId)}${what}`;
    /** @type {import("./exchange.js").Ask} */
    const ask =
      body === null
        ? { path, method: "GET", isRepeatable: true }
        : { path, body: encode(body), isRepeatable: true };
    const found = operationFromJson(await answered(ask, this.#terms, signal));
    if (found.decisionId !== decisionId) throw new MalformedAnswer("the answer is about another decision");
    return found;
  }

  /**
   * @param {string} approvalId
   * @param {number} waitSeconds
   * @param {CallOptions} [options]
   */
  async #approval(approvalId, waitSeconds, { signal } = {}) {
    const query = waitSeconds > 0 ? `?wait=${waitSeconds}` : "";
    /** @type {import("./exchange.js").Ask} */
    const ask = {
      path: `/approvals/${segment(approvalId)}${query}`,
      method: "GET",
      isRepeatable: waitSeconds === 0,
      waitSeconds,
    };
    return approvalOf(approvalId, await answered(ask, this.#terms, signal));
  }
}

/**
 * @param {string} baseUrl
 * @returns {string} without a slash at its end
 */
function checkedBaseUrl(baseUrl) {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null;
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    throw new TypeError("`baseUrl` must be an absolute http or https url");
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError("`baseUrl` must have no user, query or fragment");
  }
  return url.href.replace(/\/+$/, "");
}

/** @param {string} apiKey */
function headersWith(apiKey) {
  try {
    return new Headers({
      Authorization: `Bearer ${apiKey}`,
      "Content-Type": "application/json",
      Accept: "application/json, application/problem+json",
      "Accept-Encoding": "identity", // browsers set their own
    });
  } catch {
    // Without the cause, which quotes the key.
    throw new TypeError("`apiKey` holds a character that no header may hold");
  }
}

/**
 * The request as JSON, in its RFC 8785 form.
 *
 * @param {unknown} request
 * @returns {string}
 */
function encode(request) {
  try {
    return canonicalJson(request);
  } catch (error) {
    if (error instanceof NotCanonical)
      throw new RequestNotEncodable(`the request is not JSON: ${error.message}`);
    throw error;
  }
}

/** @param {DecideRequest} request */
async function expectedOf(request) {
  return { isDryRun: request.dry_run === true, requestDigest: await requestDigest(request) };
}

/**
 * Whether the same bytes again get the first decision back. A proof is good for one request only.
 *
 * @param {DecideRequest} request
 */
function isRepeatable({ proof, dry_run: isDryRun, context }) {
  if (proof !== undefined) return false;
  return isDryRun === true || (context !== undefined && IDS.every((name) => Boolean(context[name])));
}

/**
 * The answer to one call. Its failure does not take the other answers away.
 *
 * @param {unknown} value
 * @param {{ isDryRun: boolean, requestDigest: string, now: Date }} expected
 */
function ofBatch(value, expected) {
  try {
    const members = anObject(value, "decisions");
    if (own(members, "problem") !== null) {
      const problem = anObject(members.problem, "problem");
      refuse(typeof problem.status === "number" ? problem.status : 0, problem);
    }
    return decisionFromJson(value, expected);
  } catch (failure) {
    if (failure instanceof DecisionUnavailable) return failure;
    throw failure;
  }
}

/**
 * @param {import("./outcomes.js").OutcomeName} outcome
 * @param {string | null | undefined} externalId
 * @param {string | null | undefined} resultDigest
 */
function outcomeBody(outcome, externalId, resultDigest) {
  if (!Object.values(Outcome).includes(outcome)) throw new TypeError(`\`${String(outcome)}\` is no outcome`);
  return { outcome, external_id: externalId ?? undefined, result_digest: resultDigest ?? undefined };
}

/**
 * @param {string} approvalId
 * @param {unknown} value
 */
function approvalOf(approvalId, value) {
  const found = approvalStatusFromJson(value);
  if (found.id !== approvalId) throw new MalformedAnswer("the answer is about another approval");
  return found;
}

/**
 * Whether the same question may be answered later: reading changes nothing.
 *
 * @param {unknown} failure
 */
function mayPass(failure) {
  if (failure instanceof RequestRefused) return failure.status === 408 || failure.status === 429;
  return [Unreachable, Timeout, ServerFailure, MalformedAnswer].some((kind) => failure instanceof kind);
}

/**
 * A name as one segment of a path.
 *
 * @param {string} name
 */
function segment(name) {
  if (name === "" || name === "." || name === "..") {
    throw new RequestNotEncodable("an id must not be empty, `.` or `..`");
  }
  try {
    return encodeURIComponent(name);
  } catch {
    throw new RequestNotEncodable("the id is no text that can be sent");
  }
}
