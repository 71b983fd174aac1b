"""Golden chains that must be accepted: refusing what is fine is a fault too."""

from typing import Any

from tests.clients.python.capabilities.golden_lines import Case, bare, down_to, line, token, with_ancestors
from tests.clients.python.capabilities.golden_tables import (
    ACTIONS,
    BUDGETS,
    CANONICAL,
    CONSTRAINTS,
    CONTAINED,
    NARROW,
    TIGHTER,
    UNDER,
    WIDE,
)
from tests.clients.python.capabilities.making import KID, NOW, ROOT, child, entry, forge, key, root


def accepting() -> list[Case]:
    """Chains that must be accepted: refusing what is fine is a fault too."""
    two = child(root([WIDE]), [NARROW])
    twins = [entry(actions=["read"]), entry(actions=["send"], locations=["domain:example.com"])]
    cases: list[tuple[str, dict[str, Any]]] = [
        ("root-alone", line(root([WIDE]))),
        ("narrowed", line(two)),
        ("equal-authority", line(child(root([WIDE])))),
        ("four-links", line(down_to(3))),
        ("nine-links", line(down_to(8))),
        ("agent-left-out", line(child(root([WIDE], agent=None), [NARROW], agent=None))),
        ("not-before-now", line(root([WIDE], nbf=NOW + 10))),
        ("not-before-within-skew", line(root([WIDE], nbf=NOW + 70))),
        ("issued-within-skew", line(root([WIDE], iat=NOW + 70))),
        ("one-second-left", line(two, verify_at=NOW + 599)),
        ("another-jti-revoked", line(two, revoked_jti=["j-9"])),
        ("same-jti-as-parent", line(child(root([WIDE]), [NARROW], jti="j-0"))),
        ("depth-spent", line(child(root([WIDE], max_depth=1), max_depth=1))),
        (
            "each-under-one-entry",
            line(
                child(
                    root(twins),
                    [
                        entry(actions=["send"], locations=["mailto:ada@mail.example.com"]),
                        entry(actions=["fs/file_read:read"]),
                    ],
                )
            ),
        ),
        ("ancestors", line((forge(*with_ancestors(two), ROOT),))),
        ("second-key-loaded", line(two, keys={KID: ROOT.public.jwk, "old": key("old").public.jwk})),
        (
            "key-says-what-it-is-for",
            line(two, keys={KID: {**ROOT.public.jwk, "use": "sig", "alg": "EdDSA", "kid": KID}}),
        ),
        ("token-alone", token(root()[0])),
        (
            "token-without-link-claims",
            token(forge({"alg": "EdDSA", "typ": "cap+jwt", "kid": KID}, bare(), ROOT)),
        ),
    ]
    cases += [
        (f"object-{name}", line(child(root([entry(locations=[wide])]), [entry(locations=[narrow])])))
        for name, wide, narrow in CONTAINED
    ]
    cases += [
        (f"right-{name}", line(child(root([entry(actions=[wide])]), [entry(actions=[narrow])])))
        for name, wide, narrow in UNDER
    ]
    cases += [
        (
            f"constraint-{name}",
            line(child(root([entry(constraints={"x": wide})]), [entry(constraints={"x": narrow})])),
        )
        for name, wide, narrow in TIGHTER
    ]
    cases += [(f"location-{n}", _root(locations=[uri])) for n, uri in enumerate(CANONICAL)]
    cases += [(f"action-{n}", _root(actions=[text])) for n, text in enumerate(ACTIONS)]
    cases += [(f"constraints-{n}", _root(constraints=value)) for n, value in enumerate(CONSTRAINTS)]
    cases += [(f"budget-{n}", _root(budget=value)) for n, value in enumerate(BUDGETS)]
    return [(f"ok-{name}", question, "ok") for name, question in cases]


def _root(**parts: Any) -> dict[str, Any]:
    return line(root([entry(**parts)]))
