"""Why something was refused: a closed set of codes, one for each rule of the profile.

The codes are part of the contract (`authz capabilities verify` prints them, golden vectors state them): one
may be added, none may change its meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Component(StrEnum):
    """What of C = (R, O, P, E) a child would widen, or a call is outside of (spec section 7)."""

    RIGHTS = "R"
    OBJECTS = "O"
    PREDICATE = "P"
    EXPIRY = "E"


def nearness(component: Component | None) -> int:
    """How near something comes that fails by this: what has the rights is nearer than what has not."""
    return -1 if component is None else _IN_ORDER.index(component)


_IN_ORDER: Final = tuple(Component)


class Reason(StrEnum):
    """The rule that was broken."""

    # A line of `authz capabilities verify`
    LINE_INVALID = "line_invalid"
    # The chain as a list
    CHAIN_INVALID = "chain_invalid"
    CHAIN_EMPTY = "chain_empty"
    CHAIN_TOO_LONG = "chain_too_long"
    # One compact JWS
    TOKEN_INVALID = "token_invalid"
    TOKEN_TOO_LARGE = "token_too_large"
    TOKEN_PARTS = "token_parts"
    TOKEN_ENCODING = "token_encoding"
    TOKEN_JSON = "token_json"
    # Its header
    HEADER_UNKNOWN = "header_unknown"
    ALG_REFUSED = "alg_refused"
    TYP_REFUSED = "typ_refused"
    KID_MISSING = "kid_missing"
    KID_INVALID = "kid_invalid"
    KID_UNKNOWN = "kid_unknown"
    KID_REFUSED = "kid_refused"
    SIGNATURE_INVALID = "signature_invalid"
    # Its claims, each by itself
    CLAIM_UNKNOWN = "claim_unknown"
    ISS_INVALID = "iss_invalid"
    AUD_INVALID = "aud_invalid"
    SUB_INVALID = "sub_invalid"
    ACT_INVALID = "act_invalid"
    JTI_INVALID = "jti_invalid"
    IAT_INVALID = "iat_invalid"
    EXP_INVALID = "exp_invalid"
    NBF_INVALID = "nbf_invalid"
    CNF_INVALID = "cnf_invalid"
    DETAILS_INVALID = "details_invalid"
    ACTION_INVALID = "action_invalid"
    LOCATION_INVALID = "location_invalid"
    CONSTRAINT_INVALID = "constraint_invalid"
    BUDGET_INVALID = "budget_invalid"
    DEPTH_INVALID = "depth_invalid"
    PAR_HASH_INVALID = "par_hash_invalid"
    PAR_HASH_ON_ROOT = "par_hash_on_root"
    ANC_INVALID = "anc_invalid"
    ANC_ON_DERIVED = "anc_on_derived"
    # Claims against what the verifier expects
    ISS_MISMATCH = "iss_mismatch"
    AUD_MISMATCH = "aud_mismatch"
    LIFETIME_TOO_LONG = "lifetime_too_long"
    # A link against its parent
    ISS_NOT_PARENT = "iss_not_parent"
    PAR_HASH_MISMATCH = "par_hash_mismatch"
    AUD_CHANGED = "aud_changed"
    SUB_CHANGED = "sub_changed"
    DEPTH_STEP = "depth_step"
    DEPTH_EXCEEDED = "depth_exceeded"
    MAX_DEPTH_RAISED = "max_depth_raised"
    RIGHTS_WIDENED = "rights_widened"
    OBJECTS_WIDENED = "objects_widened"
    PREDICATE_WIDENED = "predicate_widened"
    EXPIRY_WIDENED = "expiry_widened"
    # Now
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    IAT_IN_FUTURE = "iat_in_future"
    REVOKED_LINK = "revoked_link"
    REVOKED_JTI = "revoked_jti"
    REVOKED_HOLDER = "revoked_holder"
    # A proof of possession
    ATH_MISMATCH = "ath_mismatch"
    REQUEST_MISMATCH = "request_mismatch"
    PROOF_TOO_OLD = "proof_too_old"
    # A ticket
    FINGERPRINT_MISMATCH = "fingerprint_mismatch"
    ARGUMENTS_MISMATCH = "arguments_mismatch"
    HOLDER_MISMATCH = "holder_mismatch"
    TICKET_CLAIM_INVALID = "ticket_claim_invalid"
    # A call against the entries of a capability
    RIGHT_MISSING = "right_missing"
    OBJECT_OUTSIDE = "object_outside"
    CONSTRAINT_UNMET = "constraint_unmet"


WIDENED: Final[Mapping[Component, Reason]] = {
    Component.RIGHTS: Reason.RIGHTS_WIDENED,
    Component.OBJECTS: Reason.OBJECTS_WIDENED,
    Component.PREDICATE: Reason.PREDICATE_WIDENED,
    Component.EXPIRY: Reason.EXPIRY_WIDENED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A typed no. `str()` is for people and logs; programs go by `reason`."""

    reason: Reason
    detail: str = ""
    """What is wrong, in words. Never holds a key or a signature."""
    link: int | None = None
    """Which link of the chain, 0 for the root; `None` where it is no link's."""
    component: Component | None = None
    """Which of R, O, P, E widened, or does not cover the call."""

    def __str__(self) -> str:
        where = "" if self.link is None else f" (link {self.link})"
        return f"{self.reason}{where}: {self.detail}" if self.detail else f"{self.reason}{where}"


class Refused(ValueError):
    """What the signing side raises instead of signing what no verifier would take."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
