"""Golden chains that must be refused: wider entries, malformed ones, and wrong times."""

from collections.abc import Mapping
from typing import Any

from authz_client.capabilities import VerifiedChain, verify_structure

from tests.clients.python.capabilities.golden_lines import Case, line, with_ancestors
from tests.clients.python.capabilities.golden_tables import (
    BEYOND,
    BUDGET,
    LOOSER,
    NARROW,
    NO_ACTION,
    NO_BUDGET,
    NO_CONSTRAINT,
    NOT_CANONICAL,
    OUTSIDE,
    RAISED,
    WIDE,
)
from tests.clients.python.capabilities.making import (
    AUDIENCE,
    ISSUER,
    KEYS,
    NOW,
    ROOT,
    child,
    entry,
    forge,
    reforged,
    root,
)


def refusing() -> list[Case]:
    """Chains that must be refused, each for its own reason."""
    return [*_widened(), *_malformed_entries(), *_moments()]


def _child_with(parent: Mapping[str, Any], narrowed: Any) -> dict[str, Any]:
    """A child that the library would not sign, signed by its holder all the same."""
    chain = child(root([parent]))
    return line(reforged(chain, authorization_details=narrowed if isinstance(narrowed, list) else [narrowed]))


def _widened() -> list[Case]:
    cases = [
        (f"widened-object-{n}", _child_with(entry(locations=[w]), entry(locations=[c])), "objects_widened")
        for n, w, c in OUTSIDE
    ]
    cases += [
        (f"widened-right-{n}", _child_with(entry(actions=[w]), entry(actions=[c])), "rights_widened")
        for n, w, c in BEYOND
    ]
    cases += [
        (
            f"widened-constraint-{n}",
            _child_with(entry(constraints={"x": w}), entry(constraints={"x": c})),
            "predicate_widened",
        )
        for n, w, c in LOOSER
    ]
    cases += [
        (f"widened-budget-{n}", _child_with(entry(budget=BUDGET), entry(budget=b)), "predicate_widened")
        for n, b in RAISED
    ]
    parts = [entry(actions=["read"]), entry(actions=["write"], locations=["file:///tmp"])]
    chain = child(root(parts))
    cases += [
        (
            "widened-constraint-dropped",
            _child_with(entry(constraints={"x": {"max": 1}}), entry()),
            "predicate_widened",
        ),
        (
            "widened-parts-of-two-entries",
            line(
                reforged(
                    chain, authorization_details=[entry(actions=["write"], locations=["file:///srv/work"])]
                )
            ),
            "objects_widened",
        ),
        (
            "widened-one-of-two",
            line(reforged(chain, authorization_details=[parts[0], entry(actions=["send"])])),
            "rights_widened",
        ),
        ("widened-expiry", line(reforged(chain, exp=NOW + 601)), "expiry_widened"),
        (
            "widened-at-the-third",
            line(reforged(child(child(root([WIDE]), [NARROW])), authorization_details=[WIDE])),
            "rights_widened",
        ),
    ]
    return cases


def _malformed_entries() -> list[Case]:
    def one(**changes: Any) -> dict[str, Any]:
        return line(reforged(root(), authorization_details=[{**entry(), **changes}]))

    cases: list[Case] = [
        (f"location-{n}", one(locations=[uri]), "location_invalid") for n, uri in enumerate(NOT_CANONICAL)
    ]
    cases += [(f"action-{n}", one(actions=[text]), "action_invalid") for n, text in enumerate(NO_ACTION)]
    cases += [
        (f"constraint-{n}", one(constraints={"x": c}), "constraint_invalid")
        for n, c in enumerate(NO_CONSTRAINT)
    ]
    cases += [(f"budget-{n}", one(budget=b), "budget_invalid") for n, b in enumerate(NO_BUDGET)]
    cases += [
        ("constraints-list", one(constraints=[]), "constraint_invalid"),
        ("constraint-empty-key", one(constraints={"": {"max": 1}}), "constraint_invalid"),
        ("constraint-bad-pointer", one(constraints={"/a~2": {"max": 1}}), "constraint_invalid"),
        ("constraint-twice", one(constraints={"x": {"max": 1}, "/x": {"max": 2}}), "constraint_invalid"),
        ("actions-empty", one(actions=[]), "action_invalid"),
        ("actions-string", one(actions="read"), "action_invalid"),
        ("actions-too-many", one(actions=["read"] * 65), "action_invalid"),
        ("locations-empty", one(locations=[]), "location_invalid"),
        ("locations-too-many", one(locations=["file:///a"] * 65), "location_invalid"),
        ("entry-type", one(type="all"), "details_invalid"),
        ("entry-unknown-member", one(datatypes=["x"]), "details_invalid"),
        (
            "entry-without-locations",
            line(reforged(root(), authorization_details=[{"type": "agent_tool_call", "actions": ["read"]}])),
            "details_invalid",
        ),
        ("details-empty", line(reforged(root(), authorization_details=[])), "details_invalid"),
        ("details-object", line(reforged(root(), authorization_details=entry())), "details_invalid"),
        ("details-missing", line(reforged(root(), drop=["authorization_details"])), "details_invalid"),
        ("details-too-many", line(reforged(root(), authorization_details=[entry()] * 17)), "details_invalid"),
    ]
    return cases


def _moments() -> list[Case]:
    chain = child(child(root([WIDE]), [NARROW]), exp=NOW + 300)
    links = verify_structure(chain, audience=AUDIENCE, issuer=ISSUER, keys=KEYS)
    assert isinstance(links, VerifiedChain)
    narrowed = (forge(*with_ancestors(chain), ROOT),)
    first = links.links[0]
    return [
        ("expired-on-the-second", line(chain, verify_at=NOW + 300), "expired"),
        ("expired-skew-does-not-help", line(root(), verify_at=NOW + 601), "expired"),
        ("not-yet", line(root([WIDE], nbf=NOW + 71)), "not_yet_valid"),
        ("not-yet-at-the-child", line(child(root([WIDE]), nbf=NOW + 71)), "not_yet_valid"),
        ("issued-in-future", line(root([WIDE], iat=NOW + 71)), "iat_in_future"),
        ("revoked-root", line(chain, revoked_jti=["j-0"]), "revoked_jti"),
        ("revoked-middle", line(chain, revoked_jti=["j-1"]), "revoked_jti"),
        ("revoked-link", line(chain, revoked_link=[links.links[1].link_hash]), "revoked_link"),
        ("revoked-holder", line(chain, revoked_holder=[first.holder.thumbprint]), "revoked_holder"),
        ("revoked-above-narrowed-root", line(narrowed, revoked_jti=["j-1"]), "revoked_jti"),
        ("revoked-link-above-narrowed-root", line(narrowed, revoked_link=[first.link_hash]), "revoked_link"),
        (
            "revoked-holder-above-narrowed-root",
            line(narrowed, revoked_holder=[first.holder.thumbprint]),
            "revoked_holder",
        ),
    ]
