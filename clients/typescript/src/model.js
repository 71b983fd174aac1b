/**
 * A decision as the client believes it. What cannot be believed is a `MalformedAnswer`.
 *
 * @module
 */

import { MalformedAnswer } from "./errors.js";
import {
  anObject,
  each,
  instant,
  member,
  oneOf,
  optional,
  optionalBoolean,
  optionalInteger,
  optionalText,
  own,
  text,
  texts,
} from "./members.js";
import { standingFromJson } from "./outcomes.js";

/** What the runtime may do with the call. */
export const Effect = Object.freeze(
  /** @type {const} */ ({ ALLOW: "allow", REQUIRE_APPROVAL: "require_approval", DENY: "deny" }),
);

/** What an allow is bound to. The set is closed: an allow with an unknown one must not run. */
export const Obligation = Object.freeze(
  /** @type {const} */ ({
    SNAPSHOT_BEFORE: "snapshot_before",
    VERIFY_IDENTITY: "verify_identity",
    SETTLE_BEFORE_RETRY: "settle_before_retry",
    FILTER_RESULTS: "filter_results",
    LOG_LOCALLY: "log_locally",
    PROBE_BEFORE: "probe_before",
  }),
);

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
  /** @type {string} */
  #token;

  /**
   * @param {string} token
   * @param {Date} expiresAt
   */
  constructor(token, expiresAt) {
    this.#token = token;
    this.expiresAt = expiresAt;
    Object.freeze(this);
  }

  /** A secret, and so no property: it is in no log. */
  get token() {
    return this.#token;
  }
}

/** The answer to one call. What the service left out is `null`, false or empty. */
export class Decision {
  /** @type {string | null} */
  #ticket;

  /**
   * Use `decisionFromJson`.
   *
   * @param {import("./members.js").Members} members
   */
  constructor(members) {
    this.decisionId = text(members, "decision_id");
    this.effect = oneOf(members, "effect", Effect);
    /** The stage that settled the effect. */
    this.stage = text(members, "stage");
    this.code = text(members, "code");
    this.matched = each(members, "matched", matchedRule, { required: true });
    /** For a refusal: words that a model can use. */
    this.message = optionalText(members, "message") ?? "";
    /** What may be tried after a refusal. */
    this.next = texts(members, "next");
    this.retryUnchanged = optionalBoolean(members, "retry_unchanged");
    /** When an unchanged retry can help, in milliseconds from this answer. */
    this.retryAfterMs = optionalInteger(members, "retry_after_ms");
    /** What is wrong with the arguments. */
    this.errors = each(members, "errors", argumentError);
    this.expiresAt = optional(members, "expires_at", instant);
    this.fingerprint = optional(members, "fingerprint", text);
    this.requestDigest = optional(members, "request_digest", text);
    /** The highest of its accesses': `A0` (changes nothing) to `A3`. */
    this.authority = optional(members, "authority", text);
    /** `none`, `idempotent` or `cumulative`: whether the call may run twice. */
    this.sideEffect = optional(members, "side_effect", text);
    this.accesses = each(members, "accesses", access);
    /** Those that were judged, defaults included: these are to run, not the proposed ones. */
    this.arguments = optional(members, "arguments", (found, name) => anObject(own(found, name), name));
    this.obligations = each(members, "obligations", obligation);
    this.idempotencyKey = optional(members, "idempotency_key", text);
    this.lease = optional(members, "lease", lease);
    this.approval = optional(members, "approval", approval);
    this.policyVersion = optional(members, "policy_version", text);
    /** What the answer would be. Nothing was reserved, so nothing may run on it. */
    this.dryRun = optionalBoolean(members, "dry_run");
    /** The call was allowed before. This is that permission, not a second one. */
    this.repeated = optionalBoolean(members, "repeated");
    /** Where the operation of the call stands; of one that ran before, what came of it. */
    this.operation = optional(members, "operation", (found, name) => standingFromJson(own(found, name)));
    /** In a batch: indices of calls that touch a resource which this call or the other one writes. */
    this.sharesWrittenResourceWith = each(members, "shares_written_resource_with", index);
    this.capability = optional(members, "capability", capabilityRefusal);
    this.#ticket = optional(members, "ticket", text);
    Object.freeze(this);
  }

  /** With an allow, where it was asked for: what the tool server verifies. No property: it is in no log. */
  get ticket() {
    return this.#ticket;
  }

  /** Whether the call may run, until `expiresAt` and with every obligation met. */
  get allowed() {
    return this.effect === Effect.ALLOW && !this.dryRun;
  }
}

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
export function decisionFromJson(value, { now, isDryRun = false, requestDigest }) {
  const decision = new Decision(anObject(value, "the answer"));
  if (isDryRun && !decision.dryRun) {
    throw new MalformedAnswer("a dry run was asked for, and the answer does not say that it is one");
  }
  if (
    requestDigest !== undefined &&
    decision.requestDigest !== null &&
    decision.requestDigest !== requestDigest
  ) {
    throw new MalformedAnswer("the answer is to another request: its `request_digest` is not this one's");
  }
  if (decision.effect === Effect.ALLOW) checkAllow(decision, now, requestDigest);
  return decision;
}

/**
 * @param {Decision} decision
 * @param {Date} now
 * @param {string | undefined} requestDigest
 */
function checkAllow(decision, now, requestDigest) {
  if (decision.fingerprint === null) {
    throw new MalformedAnswer("an allow must name the `fingerprint` that it is bound to");
  }
  if (requestDigest !== undefined && decision.requestDigest === null) {
    throw new MalformedAnswer("an allow must name the request that it answers (`request_digest`)");
  }
  if (decision.expiresAt === null) throw new MalformedAnswer("an allow must say when it ends (`expires_at`)");
  // Written so that a clock that gives no number refuses.
  if (!(decision.expiresAt.getTime() > now.getTime())) {
    throw new MalformedAnswer("the allow has expired: check this machine's clock, or ask again");
  }
  // The effect of a call is the strictest of its accesses' (spec section 1).
  if (decision.accesses.some(({ effect }) => effect !== Effect.ALLOW)) {
    throw new MalformedAnswer("an allow must not hold an access that is not allowed");
  }
}

/**
 * @param {unknown} value
 * @returns {MatchedRule}
 */
function matchedRule(value) {
  const members = anObject(value, "matched");
  return Object.freeze({
    rule: text(members, "rule"),
    kind: text(members, "kind"),
    file: optionalText(members, "file"),
    line: optionalInteger(members, "line"),
    reason: optionalText(members, "reason") ?? "",
  });
}

/**
 * @param {unknown} value
 * @returns {Readonly<Access>}
 */
function access(value) {
  const members = anObject(value, "accesses");
  return Object.freeze({
    verb: text(members, "verb"),
    resource: text(members, "resource"),
    uri: text(members, "uri"),
    scope: text(members, "scope"),
    authority: text(members, "authority"),
    effect: oneOf(members, "effect", Effect),
    rules: texts(members, "rules"),
    pattern: optionalText(members, "pattern"),
  });
}

/**
 * @param {unknown} value
 * @returns {ArgumentError}
 */
function argumentError(value) {
  const members = anObject(value, "errors");
  return Object.freeze({
    pointer: optionalText(members, "pointer") ?? "",
    found: optionalText(members, "found") ?? "",
    expected: optionalText(members, "expected") ?? "",
    message: optionalText(members, "message") ?? "",
  });
}

/**
 * @param {unknown} value
 * @returns {ObligationName}
 */
function obligation(value) {
  if (typeof value !== "string") throw new MalformedAnswer("`obligations` must be an array of strings");
  return member(value, "obligations", Obligation);
}

/**
 * @param {import("./members.js").Members} found
 * @param {string} name
 */
function lease(found, name) {
  const members = anObject(own(found, name), name);
  return new Lease(text(members, "token"), instant(members, "expires_at"));
}

/**
 * @param {import("./members.js").Members} found
 * @param {string} name
 * @returns {Approval}
 */
function approval(found, name) {
  const members = anObject(own(found, name), name);
  return Object.freeze({
    id: text(members, "id"),
    state: text(members, "state"),
    url: optionalText(members, "url"),
    expiresAt: optional(members, "expires_at", instant),
  });
}

/**
 * @param {import("./members.js").Members} found
 * @param {string} name
 * @returns {Readonly<CapabilityRefusal>}
 */
function capabilityRefusal(found, name) {
  const members = anObject(own(found, name), name);
  return Object.freeze({
    reason: text(members, "reason"),
    link: optionalInteger(members, "link"),
    agent: optionalText(members, "agent"),
    component: optionalText(members, "component"),
  });
}

/** @param {unknown} value */
function index(value) {
  if (!Number.isSafeInteger(value)) {
    throw new MalformedAnswer("`shares_written_resource_with` must hold integers");
  }
  return /** @type {number} */ (value);
}
