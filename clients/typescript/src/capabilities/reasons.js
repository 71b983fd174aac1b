/**
 * Why something was refused: a closed set of codes, one for each rule of the profile. The codes are part of
 * the contract, and the same as those of the Python profile: golden vectors state them.
 *
 * @module
 */

/** @typedef {"R" | "O" | "P" | "E"} Component rights, objects, predicate, expiry (spec section 7) */

/** @type {readonly (Component | null)[]} */
const NEAREST_LAST = ["R", "O", "P", "E"];

/**
 * How near something comes that fails by this: what has the rights is nearer than what has not.
 *
 * @param {Component | null} component
 */
export function nearness(component) {
  return NEAREST_LAST.indexOf(component);
}

/** The rule that was broken. */
export const Reason = Object.freeze(
  /** @type {const} */ ({
    LINE_INVALID: "line_invalid",
    CHAIN_INVALID: "chain_invalid",
    CHAIN_EMPTY: "chain_empty",
    CHAIN_TOO_LONG: "chain_too_long",
    TOKEN_INVALID: "token_invalid",
    TOKEN_TOO_LARGE: "token_too_large",
    TOKEN_PARTS: "token_parts",
    TOKEN_ENCODING: "token_encoding",
    TOKEN_JSON: "token_json",
    HEADER_UNKNOWN: "header_unknown",
    ALG_REFUSED: "alg_refused",
    TYP_REFUSED: "typ_refused",
    KID_MISSING: "kid_missing",
    KID_INVALID: "kid_invalid",
    KID_UNKNOWN: "kid_unknown",
    KID_REFUSED: "kid_refused",
    SIGNATURE_INVALID: "signature_invalid",
    CLAIM_UNKNOWN: "claim_unknown",
    ISS_INVALID: "iss_invalid",
    AUD_INVALID: "aud_invalid",
    SUB_INVALID: "sub_invalid",
    ACT_INVALID: "act_invalid",
    JTI_INVALID: "jti_invalid",
    IAT_INVALID: "iat_invalid",
    EXP_INVALID: "exp_invalid",
    NBF_INVALID: "nbf_invalid",
    CNF_INVALID: "cnf_invalid",
    DETAILS_INVALID: "details_invalid",
    ACTION_INVALID: "action_invalid",
    LOCATION_INVALID: "location_invalid",
    CONSTRAINT_INVALID: "constraint_invalid",
    BUDGET_INVALID: "budget_invalid",
    DEPTH_INVALID: "depth_invalid",
    PAR_HASH_INVALID: "par_hash_invalid",
    PAR_HASH_ON_ROOT: "par_hash_on_root",
    ANC_INVALID: "anc_invalid",
    ANC_ON_DERIVED: "anc_on_derived",
    ISS_MISMATCH: "iss_mismatch",
    AUD_MISMATCH: "aud_mismatch",
    LIFETIME_TOO_LONG: "lifetime_too_long",
    ISS_NOT_PARENT: "iss_not_parent",
    PAR_HASH_MISMATCH: "par_hash_mismatch",
    AUD_CHANGED: "aud_changed",
    SUB_CHANGED: "sub_changed",
    DEPTH_STEP: "depth_step",
    DEPTH_EXCEEDED: "depth_exceeded",
    MAX_DEPTH_RAISED: "max_depth_raised",
    RIGHTS_WIDENED: "rights_widened",
    OBJECTS_WIDENED: "objects_widened",
    PREDICATE_WIDENED: "predicate_widened",
    EXPIRY_WIDENED: "expiry_widened",
    EXPIRED: "expired",
    NOT_YET_VALID: "not_yet_valid",
    IAT_IN_FUTURE: "iat_in_future",
    REVOKED_LINK: "revoked_link",
    REVOKED_JTI: "revoked_jti",
    REVOKED_HOLDER: "revoked_holder",
    ATH_MISMATCH: "ath_mismatch",
    REQUEST_MISMATCH: "request_mismatch",
    PROOF_TOO_OLD: "proof_too_old",
    FINGERPRINT_MISMATCH: "fingerprint_mismatch",
    ARGUMENTS_MISMATCH: "arguments_mismatch",
    HOLDER_MISMATCH: "holder_mismatch",
    TICKET_CLAIM_INVALID: "ticket_claim_invalid",
    RIGHT_MISSING: "right_missing",
    OBJECT_OUTSIDE: "object_outside",
    CONSTRAINT_UNMET: "constraint_unmet",
  }),
);

/** @typedef {typeof Reason[keyof typeof Reason]} ReasonCode */

/** @type {Readonly<Record<Component, ReasonCode>>} */
export const WIDENED = Object.freeze({
  R: Reason.RIGHTS_WIDENED,
  O: Reason.OBJECTS_WIDENED,
  P: Reason.PREDICATE_WIDENED,
  E: Reason.EXPIRY_WIDENED,
});

/** A typed no. `String()` is for people and logs; programs go by `reason`. */
export class Refusal {
  /**
   * @param {ReasonCode} reason
   * @param {string} [detail] what is wrong, in words; never holds a key or a signature
   * @param {{ link?: number | null, component?: Component | null }} [where]
   */
  constructor(reason, detail = "", { link = null, component = null } = {}) {
    this.reason = reason;
    this.detail = detail;
    /** Which link of the chain, 0 for the root; `null` where it is no link's. */
    this.link = link;
    /** Which of R, O, P, E widened, or does not cover the call. */
    this.component = component;
    Object.freeze(this);
  }

  /**
   * The same refusal, of one link.
   *
   * @param {number} link
   */
  at(link) {
    return new Refusal(this.reason, this.detail, { link, component: this.component });
  }

  toString() {
    const where = this.link === null ? "" : ` (link ${this.link})`;
    return this.detail === "" ? `${this.reason}${where}` : `${this.reason}${where}: ${this.detail}`;
  }
}

/** What the signing side throws instead of signing what no verifier would take. */
export class Refused extends Error {
  name = "Refused";

  /** @param {Refusal} refusal */
  constructor(refusal) {
    super(String(refusal));
    this.refusal = refusal;
  }
}
