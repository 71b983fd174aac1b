/**
 * What a guard does before a tool runs: the only place where its procedure stands.
 *
 * 1. resolve what the arguments name · 2. decide · 3. wait for an approval, and decide again · 4. meet the
 * obligations · 5. re-check identity · 6. begin. Where nothing is re-checked, `decide` begins the act itself:
 * one round trip reserves and starts. Then the tool runs, and the guard tells how it ended.
 *
 * @module
 */

import { NotCanonical, canonicalJson } from "./canonical-json.js";
import { DecisionUnavailable, MalformedAnswer, RequestRefused, Timeout, Unreachable } from "./errors.js";
import { Effect, Obligation } from "./model.js";
import { ApprovalState, GRANTED } from "./outcomes.js";
import { Permitted } from "./permitted.js";
import {
  AlreadyDone,
  ApprovalPending,
  ApprovalRefused,
  CallDenied,
  CallInProgress,
  CallRefused,
  IdentityRefused,
  NoDecision,
  ObligationUnmet,
  OutcomeUnknown,
  StartRefused,
} from "./refusals.js";
import { abandon, giveBack } from "./settling.js";

/** @typedef {import("./model.js").Decision} Decision */
/** @typedef {import("./guard.js").Shared} Shared */
/**
 * @typedef {Readonly<Record<string, unknown>>} Claims `context.resolved`: by JSON Pointer, what it leads to
 */

/**
 * One call, and how it is to be guarded.
 *
 * @typedef {object} GuardedCall
 * @property {string} tool `server/name`
 * @property {string} server
 * @property {string} name
 * @property {Record<string, unknown>} arguments
 * @property {Readonly<Record<string, unknown>> | undefined} provenance
 * @property {Readonly<Record<string, unknown>>} context ids included
 * @property {string} attempt
 * @property {boolean} isRead it was declared to change nothing: then nothing is told of how it went
 * @property {number} approvalSeconds how long an approval is waited for; 0 is not at all
 * @property {import("./guard.js").CallSettings["resolve"]} [resolve]
 * @property {string} [advertisedDigest]
 * @property {boolean} [ticket]
 * @property {number} [timeoutSeconds]
 * @property {AbortSignal} [signal]
 */

/**
 * What may run now.
 *
 * @param {GuardedCall} call
 * @param {Shared} shared
 * @returns {Promise<Permitted>}
 * @throws {CallRefused}
 */
export async function permission(call, shared) {
  const { client } = shared;
  const claims = await resolved(call, call.arguments);
  const decision = await allowed(call, claims, shared);
  if (decision === null) {
    const { tool, arguments: proposed } = call;
    return new Permitted({ tool, arguments: proposed, decision, attempt: null, isSettled: false });
  }
  const isSettled = !call.isRead || decision.authority !== "A0";
  const judged = decision.arguments ?? {};
  const permitted = new Permitted({
    tool: call.tool,
    arguments: judged,
    decision,
    attempt: call.attempt,
    isSettled,
  });
  try {
    checkObligations(call, decision, isSettled);
    if (claims !== null) await checkIdentity(call, decision, claims);
  } catch (refused) {
    await abandon(client, permitted);
    throw refused;
  }
  if (isSettled && !foldsStart(call)) await begin(call, permitted, decision, shared);
  if (!(decision.expiresAt !== null && decision.expiresAt.getTime() > client.now().getTime())) {
    await abandon(client, permitted);
    throw new NoDecision("the allow ran out before the call could begin", call);
  }
  return permitted;
}

/**
 * Whether the decision itself begins the act.
 *
 * @param {GuardedCall} call
 */
function foldsStart({ isRead, resolve }) {
  return !isRead && resolve === undefined;
}

/**
 * The body of `POST /decide`.
 *
 * @param {GuardedCall} call
 * @param {Claims | null} claims
 * @param {Shared} shared
 * @returns {import("./client.js").DecideRequest}
 */
function requestOf(call, claims, { subject }) {
  const { resolved: stated } = call.context;
  const start = { attempt: call.attempt, timeout_seconds: call.timeoutSeconds };
  return defined({
    subject,
    tool: defined({ server: call.server, name: call.name, advertised_digest: call.advertisedDigest }),
    arguments: call.arguments,
    provenance: call.provenance,
    context: defined({
      ...call.context,
      resolved: claims === null ? stated : { .../** @type {Claims | undefined} */ (stated), ...claims },
      settles: call.isRead ? undefined : true,
      start: foldsStart(call) ? defined(start) : undefined,
    }),
    ticket: call.ticket === true ? true : undefined,
  });
}

/**
 * @template {object} T
 * @param {T} members
 * @returns {any} without what is undefined
 */
function defined(members) {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

/**
 * Step 1, and again step 5: what the arguments lead to where the tool would use them.
 *
 * @param {GuardedCall} call
 * @param {Record<string, unknown>} args
 * @returns {Promise<Claims | null>}
 */
async function resolved({ resolve, tool }, args) {
  if (resolve === undefined) return null;
  try {
    const claims = await resolve(args);
    if (typeof claims === "object" && claims !== null) return claims;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new IdentityRefused(`what it is about cannot be told: ${why}`, {
      tool,
      code: "identity.unresolved",
      cause,
    });
  }
  throw new IdentityRefused("`resolve` returned no claims", { tool, code: "identity.unresolved" });
}

/**
 * Steps 2 and 3: a live allow. `null` only where the transport failed and the tool may fail open.
 *
 * @param {GuardedCall} call
 * @param {Claims | null} claims
 * @param {Shared} shared
 * @returns {Promise<Decision | null>}
 */
async function allowed(call, claims, shared) {
  const endsAt = performance.now() + call.approvalSeconds * 1000;
  for (let isFirst = true; ; isFirst = false) {
    const decision = await decided(call, claims, shared, isFirst);
    if (decision === null || decision.effect === Effect.ALLOW) return decision;
    if (decision.effect === Effect.DENY) {
      await giveBack(shared.client, decision);
      throw denied(call, decision);
    }
    if (decision.approval === null) {
      throw noDecision(call, new MalformedAnswer("an approval is asked for, and the answer names none"));
    }
    const seconds = (endsAt - performance.now()) / 1000;
    if (!(seconds > 0)) throw pending(call, decision, decision.approval);
    await granted(call, decision, decision.approval, seconds, shared);
  }
}

/**
 * @param {GuardedCall} call
 * @param {Claims | null} claims
 * @param {Shared} shared
 * @param {boolean} isFirst
 * @returns {Promise<Decision | null>}
 */
async function decided(call, claims, shared, isFirst) {
  try {
    const request = requestOf(call, claims, shared);
    // A proof is of one request, and good for it once.
    const presented = (await shared.present?.(request)) ?? {};
    const decision = await shared.client.decide({ ...request, ...presented }, { signal: call.signal });
    if (decision.effect === Effect.ALLOW) checkWhole(decision);
    return decision;
  } catch (failure) {
    if (!(failure instanceof DecisionUnavailable)) throw failure;
    const isTransport = failure instanceof Timeout || failure instanceof Unreachable;
    if (isTransport && isFirst && call.isRead && shared.failOpenFor.has(call.tool)) {
      shared.log.warn(
        `no decision on \`${call.tool}\` (${failure.name}): it runs all the same, as \`failOpenFor\` says`,
      );
      return null;
    }
    throw noDecision(call, failure);
  }
}

/**
 * An allow has all that a guard needs to run the call and to tell of it.
 *
 * @param {Decision} decision
 */
function checkWhole({ dryRun, arguments: judged, lease, idempotencyKey }) {
  if (dryRun || judged === null) throw new MalformedAnswer("an allow must name the `arguments` to run");
  if (lease === null || idempotencyKey === null) {
    throw new MalformedAnswer("an allow must carry a `lease` and an `idempotency_key`");
  }
}

/**
 * Step 3: wait until somebody has agreed. The decision is then asked for once more.
 *
 * @param {GuardedCall} call
 * @param {Decision} decision
 * @param {import("./model.js").Approval} approval
 * @param {number} deadlineSeconds
 * @param {Shared} shared
 */
async function granted(call, decision, approval, deadlineSeconds, { client }) {
  let status;
  try {
    status = await client.waitForApproval(approval.id, { deadlineSeconds, signal: call.signal });
  } catch (failure) {
    if (failure instanceof DecisionUnavailable) throw pending(call, decision, approval, failure);
    throw failure;
  }
  if (status.state === ApprovalState.PENDING) throw pending(call, decision, approval);
  if (GRANTED.has(status.state)) return;
  const why = status.denialReason ? `: ${status.denialReason}` : "";
  const { tool } = call;
  const { state } = status;
  throw new ApprovalRefused(`the approval that it needs is \`${state}\`${why}`, {
    tool,
    decision,
    state,
    status,
  });
}

/**
 * Step 4. The guard settles, and looks again at what it resolved. Nothing else is done here, so it refuses.
 *
 * @param {GuardedCall} call
 * @param {Decision} decision
 * @param {boolean} isSettled
 */
function checkObligations({ tool, resolve }, decision, isSettled) {
  /** @type {Set<string>} */
  const met = new Set();
  if (resolve !== undefined) met.add(Obligation.VERIFY_IDENTITY);
  if (isSettled) met.add(Obligation.SETTLE_BEFORE_RETRY);
  const unmet = decision.obligations.filter((obligation) => !met.has(obligation));
  if (unmet.length > 0) {
    throw new ObligationUnmet(`this runtime does not do what the allow is bound to: ${unmet.join(", ")}`, {
      tool,
      code: "obligation.unmet",
      next: ["escalate", "stop"],
      decision,
    });
  }
}

/**
 * Step 5: the arguments that will run lead to what was decided on, now that they are about to.
 *
 * @param {GuardedCall} call
 * @param {Decision} decision
 * @param {Claims} claims
 */
async function checkIdentity(call, decision, claims) {
  const found = await resolved(call, decision.arguments ?? {});
  if (isSame(found, claims)) return;
  throw new IdentityRefused("what it is about has changed since it was decided on", {
    tool: call.tool,
    code: "identity.changed",
    next: ["wait", "stop"],
    decision,
  });
}

/**
 * @param {unknown} one
 * @param {unknown} other
 */
function isSame(one, other) {
  try {
    return canonicalJson(one) === canonicalJson(other);
  } catch (error) {
    if (error instanceof NotCanonical) return false;
    throw error;
  }
}

/**
 * Step 6, where the decision did not do it. Of several tries of one call one begins.
 *
 * @param {GuardedCall} call
 * @param {Permitted} permitted
 * @param {Decision} decision
 * @param {Shared} shared
 */
async function begin({ tool, attempt, timeoutSeconds }, permitted, decision, { client }) {
  try {
    const leaseToken = decision.lease?.token ?? "";
    await client.start(decision.decisionId, { leaseToken, attempt, timeoutSeconds });
  } catch (failure) {
    if (!(failure instanceof DecisionUnavailable)) throw failure;
    if (failure instanceof RequestRefused) {
      const facts = { tool, code: failure.code, decision, cause: failure };
      if (failure.code === "operation.in_progress") {
        throw new CallInProgress("another try of this call has begun", {
          ...facts,
          next: ["wait", "query_status"],
        });
      }
      throw new StartRefused(`it must not begin: ${failure.detail}`, {
        ...facts,
        next: ["query_status", "stop"],
      });
    }
    await abandon(client, permitted);
    throw noDecision({ tool }, failure);
  }
}

/**
 * The refusal that a deny means, by its code.
 *
 * @param {GuardedCall} call
 * @param {Decision} decision
 * @returns {CallRefused}
 */
function denied({ tool }, decision) {
  const { code, next, operation, approval } = decision;
  const message = decision.message || `it is denied (\`${code}\`)`;
  const facts = { tool, code, next, decision };
  if (code === "operation.settled" && operation !== null)
    return new AlreadyDone(message, { ...facts, outcome: operation });
  if (code === "operation.unknown") return new OutcomeUnknown(message, facts);
  if (code === "operation.in_progress") return new CallInProgress(message, facts);
  if (approval !== null && code.startsWith("approval.")) {
    return new ApprovalRefused(message, { ...facts, state: approval.state });
  }
  return new CallDenied(message, facts);
}

/**
 * @param {GuardedCall} call
 * @param {Decision} decision
 * @param {import("./model.js").Approval} approval
 * @param {unknown} [cause]
 */
function pending({ tool }, decision, approval, cause) {
  const where = approval.url ? ` at ${approval.url}` : "";
  return new ApprovalPending(`a person has to agree first${where}`, { tool, decision, approval, cause });
}

/**
 * @param {{ tool: string }} call
 * @param {DecisionUnavailable} failure
 */
function noDecision({ tool }, failure) {
  return new NoDecision(`there is no decision on it: ${failure.message}`, { tool, cause: failure });
}
