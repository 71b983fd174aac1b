/**
 * Telling the service how a call ended.
 *
 * @module
 */

import { DecisionUnavailable, RequestRefused } from "./errors.js";
import { Outcome } from "./outcomes.js";

const NOT_BEGUN = "the tool was not begun";

/** @typedef {import("./permitted.js").Ended} Ended */
/** @typedef {import("./permitted.js").Permitted} Permitted */

/**
 * Tell it. Where it is not known whether the report came through, its status is asked for first.
 *
 * @param {import("./client.js").Client} client
 * @param {Permitted} permitted by a decision
 * @param {Ended} ended
 * @returns {Promise<import("./permitted.js").Unsettled | null>} `null` when it was taken
 */
export async function settled(client, permitted, ended) {
  const { decisionId = "", lease = null } = permitted.decision ?? {};
  try {
    await client.settle(decisionId, { leaseToken: lease?.token ?? "", ...ended });
    return null;
  } catch (failure) {
    if (!(failure instanceof DecisionUnavailable)) throw failure;
    const isTaken = !(failure instanceof RequestRefused) && (await standsAs(client, decisionId, ended));
    return isTaken ? null : { permitted, ended, failure };
  }
}

/**
 * @param {import("./client.js").Client} client
 * @param {string} decisionId
 * @param {Ended} ended
 */
async function standsAs(client, decisionId, { outcome, externalId, resultDigest }) {
  try {
    const found = await client.operation(decisionId);
    return found.state === outcome && found.externalId === externalId && found.resultDigest === resultDigest;
  } catch (failure) {
    if (failure instanceof DecisionUnavailable) return false;
    throw failure;
  }
}

/**
 * Of a deny: a try that began without our knowing, since its answer was lost, and was cancelled since.
 * Somebody has to say that it did not run, or its lease ends by itself.
 *
 * @param {import("./client.js").Client} client
 * @param {import("./model.js").Decision} decision
 */
export async function giveBack(client, { lease, operation }) {
  if (lease === null || operation === null || operation.decisionId === null) return;
  try {
    const report = { leaseToken: lease.token, outcome: Outcome.FAILED_RETRYABLE, detail: NOT_BEGUN };
    await client.settle(operation.decisionId, report);
  } catch (failure) {
    if (!(failure instanceof DecisionUnavailable)) throw failure;
  }
}

/**
 * Nothing ran. Told once, and lost without harm: then the lease ends by itself.
 *
 * @param {import("./client.js").Client} client
 * @param {Permitted} permitted
 */
export async function abandon(client, permitted) {
  if (!permitted.isSettled) return;
  const told = { externalId: null, resultDigest: null, detail: NOT_BEGUN };
  await settled(client, permitted, { ...told, outcome: Outcome.FAILED_RETRYABLE });
}
