/**
 * How near something comes that fails by this: what has the rights is nearer than what has not.
 *
 * @param {Component | null} component
 */
export function nearness(component: Component | null): number;
/** The rule that was broken. */
export const Reason: Readonly<{
    readonly LINE_INVALID: "line_invalid";
    readonly CHAIN_INVALID: "chain_invalid";
    readonly CHAIN_EMPTY: "chain_empty";
    readonly CHAIN_TOO_LONG: "chain_too_long";
    readonly TOKEN_INVALID: "token_invalid";
    readonly TOKEN_TOO_LARGE: "token_too_large";
    readonly TOKEN_PARTS: "token_parts";
    readonly TOKEN_ENCODING: "token_encoding";
    readonly TOKEN_JSON: "token_json";
    readonly HEADER_UNKNOWN: "header_unknown";
    readonly ALG_REFUSED: "alg_refused";
    readonly TYP_REFUSED: "typ_refused";
    readonly KID_MISSING: "kid_missing";
    readonly KID_INVALID: "kid_invalid";
    readonly KID_UNKNOWN: "kid_unknown";
    readonly KID_REFUSED: "kid_refused";
    readonly SIGNATURE_INVALID: "signature_invalid";
    readonly CLAIM_UNKNOWN: "claim_unknown";
    readonly ISS_INVALID: "iss_invalid";
    readonly AUD_INVALID: "aud_invalid";
    readonly SUB_INVALID: "sub_invalid";
    readonly ACT_INVALID: "act_invalid";
    readonly JTI_INVALID: "jti_invalid";
    readonly IAT_INVALID: "iat_invalid";
    readonly EXP_INVALID: "exp_invalid";
    readonly NBF_INVALID: "nbf_invalid";
    readonly CNF_INVALID: "cnf_invalid";
    readonly DETAILS_INVALID: "details_invalid";
    readonly ACTION_INVALID: "action_invalid";
    readonly LOCATION_INVALID: "location_invalid";
    readonly CONSTRAINT_INVALID: "constraint_invalid";
    readonly BUDGET_INVALID: "budget_invalid";
    readonly DEPTH_INVALID: "depth_invalid";
    readonly PAR_HASH_INVALID: "par_hash_invalid";
    readonly PAR_HASH_ON_ROOT: "par_hash_on_root";
    readonly ANC_INVALID: "anc_invalid";
    readonly ANC_ON_DERIVED: "anc_on_derived";
    readonly ISS_MISMATCH: "iss_mismatch";
    readonly AUD_MISMATCH: "aud_mismatch";
    readonly LIFETIME_TOO_LONG: "lifetime_too_long";
    readonly ISS_NOT_PARENT: "iss_not_parent";
    readonly PAR_HASH_MISMATCH: "par_hash_mismatch";
    readonly AUD_CHANGED: "aud_changed";
    readonly SUB_CHANGED: "sub_changed";
    readonly DEPTH_STEP: "depth_step";
    readonly DEPTH_EXCEEDED: "depth_exceeded";
    readonly MAX_DEPTH_RAISED: "max_depth_raised";
    readonly RIGHTS_WIDENED: "rights_widened";
    readonly OBJECTS_WIDENED: "objects_widened";
    readonly PREDICATE_WIDENED: "predicate_widened";
    readonly EXPIRY_WIDENED: "expiry_widened";
    readonly EXPIRED: "expired";
    readonly NOT_YET_VALID: "not_yet_valid";
    readonly IAT_IN_FUTURE: "iat_in_future";
    readonly REVOKED_LINK: "revoked_link";
    readonly REVOKED_JTI: "revoked_jti";
    readonly REVOKED_HOLDER: "revoked_holder";
    readonly ATH_MISMATCH: "ath_mismatch";
    readonly REQUEST_MISMATCH: "request_mismatch";
    readonly PROOF_TOO_OLD: "proof_too_old";
    readonly FINGERPRINT_MISMATCH: "fingerprint_mismatch";
    readonly ARGUMENTS_MISMATCH: "arguments_mismatch";
    readonly HOLDER_MISMATCH: "holder_mismatch";
    readonly TICKET_CLAIM_INVALID: "ticket_claim_invalid";
    readonly RIGHT_MISSING: "right_missing";
    readonly OBJECT_OUTSIDE: "object_outside";
    readonly CONSTRAINT_UNMET: "constraint_unmet";
}>;
/** @typedef {typeof Reason[keyof typeof Reason]} ReasonCode */
/** @type {Readonly<Record<Component, ReasonCode>>} */
export const WIDENED: Readonly<Record<Component, ReasonCode>>;
/** A typed no. `String()` is for people and logs; programs go by `reason`. */
export class Refusal {
    /**
     * @param {ReasonCode} reason
     * @param {string} [detail] what is wrong, in words; never holds a key or a signature
     * @param {{ link?: number | null, component?: Component | null }} [where]
     */
    constructor(reason: ReasonCode, detail?: string, { link, component }?: {
        link?: number | null;
        component?: Component | null;
    });
    reason: ReasonCode;
    detail: string;
    /** Which link of the chain, 0 for the root; `null` where it is no link's. */
    link: number | null;
    /** Which of R, O, P, E widened, or does not cover the call. */
    component: Component | null;
    /**
     * The same refusal, of one link.
     *
     * @param {number} link
     */
    at(link: number): Refusal;
    toString(): string;
}
/** What the signing side throws instead of signing what no verifier would take. */
export class Refused extends Error {
    /** @param {Refusal} refusal */
    constructor(refusal: Refusal);
    refusal: Refusal;
}
/**
 * rights, objects, predicate, expiry (spec section 7)
 */
export type Component = "R" | "O" | "P" | "E";
export type ReasonCode = (typeof Reason)[keyof typeof Reason];
