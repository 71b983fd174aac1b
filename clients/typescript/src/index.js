/**
 * Asks the authz service whether a call of an agent may run, and runs it as it was decided. Holds no policy.
 *
 *     const client = new Client("http://localhost:8700", { apiKey });
 *     const decision = await client.decide(request);
 *
 * No answer is an allow but `decision.allowed`; every failure to get one is a `DecisionUnavailable`.
 *
 * @module
 */

export { Client } from "./client.js";
export {
  Aborted,
  DecisionUnavailable,
  MalformedAnswer,
  RequestNotEncodable,
  RequestRefused,
  ServerFailure,
  Timeout,
  Unreachable,
} from "./errors.js";
export { Guard } from "./guard.js";
export { Decision, Effect, Lease, Obligation } from "./model.js";
export { ApprovalState, OperationState, Outcome } from "./outcomes.js";
export { Permitted } from "./permitted.js";
export {
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

/** @typedef {import("./client.js").ClientOptions} ClientOptions */
/** @typedef {import("./client.js").DecideRequest} DecideRequest */
/** @typedef {import("./guard.js").CallSettings} CallSettings */
/** @typedef {import("./guard.js").Failure} Failure */
/** @typedef {import("./guard.js").GuardOptions} GuardOptions */
/** @typedef {import("./guard.js").Pending} Pending */
/** @typedef {import("./model.js").Access} Access */
/** @typedef {import("./model.js").Approval} Approval */
/** @typedef {import("./model.js").MatchedRule} MatchedRule */
/** @typedef {import("./outcomes.js").ApprovalStatus} ApprovalStatus */
/** @typedef {import("./outcomes.js").Operation} Operation */
/** @typedef {import("./outcomes.js").Standing} Standing */
/** @typedef {import("./permitted.js").Ended} Ended */
/** @typedef {import("./permitted.js").Unsettled} Unsettled */
