"""UR1, UR3 and UR4 at the decision: a host has one verdict in every spelling, and a forbid has no exceptions.

What a url's canonical form is: `tests/unit/core/canonical/test_url.py` and the vectors in `tests/external`.
"""

import ipaddress
from functools import cache
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from authz.core.ruleset import Ruleset
from authz.model.decision import Effect
from tests.cases.served import SHELL
from tests.support.world import PERMIT_ALL, WEB, call, decide_in, world

POLICY: Final = (
    f'{PERMIT_ALL} @id("evil") forbid (principal, action, resource in Domain::"evil.example");'
    '@id("inside") forbid (principal, action, resource) when {'
    '(resource is Endpoint && !(["name", "public"].contains(resource.class))) ||'
    '(resource is Host && !(["name", "public"].contains(resource.class))) };'
)


@cache
def ruleset(policy: str = POLICY) -> Ruleset:
    return world(policy, tools={"web": WEB, "shell": SHELL})


def fetched(url: str, policy: str = POLICY) -> Effect:
    return decide_in(ruleset(policy), call("web/fetch", {"url": url})).decision.effect


def ran(line: str) -> Effect:
    return decide_in(ruleset(), call("shell/run", {"command": line})).decision.effect


LABELS: Final = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), min_size=1, max_size=3)
SCHEMES: Final = st.sampled_from(["http", "https", "HTTP", "Https"])
PORTS: Final = st.sampled_from(["", ":80", ":443", ":8443", ":0080"])
TAILS: Final = st.sampled_from(
    ["", "/", "/a/../b", "/?https://good.example/", "#good.example", "/good.example"]
)


@st.composite
def hosts(draw: st.DrawFn, name: str) -> str:
    """Spellings of one host name."""
    spelled = "".join(draw(st.sampled_from([char, char.upper()])) for char in name)
    return spelled + draw(st.sampled_from(["", "."]))


@given(st.data(), LABELS, SCHEMES, PORTS, TAILS)
def test_ur1_a_forbidden_domain_is_forbidden_in_every_spelling(
    data: st.DataObject, labels: list[str], scheme: str, port: str, tail: str
) -> None:
    under = data.draw(st.sampled_from(["evil.example", ".".join([*labels, "evil.example"])]))
    host = data.draw(hosts(under))
    assert fetched(f"{scheme}://{host}{port}{tail}") is Effect.DENY
    assert ran(f"curl -s '{scheme}://{host}{port}{tail}'") is Effect.DENY
    assert ran(f"wget -q --max-redirect=0 -O x '{scheme}://{host}{port}{tail}'") is Effect.DENY


@given(st.data(), LABELS, SCHEMES, PORTS, TAILS)
def test_ur1_and_what_only_looks_like_it_is_not(
    data: st.DataObject, labels: list[str], scheme: str, port: str, tail: str
) -> None:
    label = labels[0]
    other = data.draw(
        st.sampled_from([f"{label}evil.example", f"evil.example.{label}x.test", f"evil{label}.example"])
    )
    assert fetched(f"{scheme}://{data.draw(hosts(other))}{port}{tail}") is Effect.ALLOW


ADDRESSES: Final = st.one_of(
    st.integers(0, 2**32 - 1),
    *(
        st.integers(int(net.network_address), int(net.broadcast_address))
        for net in map(
            ipaddress.IPv4Network,
            (
                "10.0.0.0/8",
                "127.0.0.0/8",
                "169.254.0.0/16",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "100.64.0.0/10",
            ),
        )
    ),
)


@st.composite
def addresses(draw: st.DrawFn, number: int) -> str:
    """Spellings of one IPv4 address: in other bases, of fewer parts, inside IPv6."""
    parts = [number >> shift & 255 for shift in (24, 16, 8, 0)]
    dotted = ".".join(
        draw(st.sampled_from([f"{part}", f"0x{part:x}", f"0{part:o}", f"0X{part:02X}"])) for part in parts
    )
    high, low = number >> 16, number & 0xFFFF
    return draw(
        st.sampled_from(
            [
                *(dotted, f"{number}", f"0x{number:x}", f"0{number:o}", f"{parts[0]}.{number & 0xFFFFFF}"),
                *(f"[::ffff:{high:x}:{low:x}]", f"[64:ff9b::{high:x}:{low:x}]", f"[2002:{high:x}:{low:x}::]"),
                f"[0:0:0:0:0:FFFF:{'.'.join(map(str, parts))}]",
            ]
        )
    )


@given(st.data(), ADDRESSES, SCHEMES, PORTS)
def test_ur3_an_address_has_the_verdict_of_its_value(
    data: st.DataObject, number: int, scheme: str, port: str
) -> None:
    plain = fetched(f"http://{ipaddress.IPv4Address(number)}/")
    spelled = data.draw(addresses(number))
    assert fetched(f"{scheme}://{spelled}{port}/latest") is plain
    if not ipaddress.IPv4Address(number).is_global:
        assert plain is Effect.DENY
        assert ran(f"curl '{scheme}://{spelled}{port}/latest'") is Effect.DENY


PERMITS: Final = st.lists(
    st.sampled_from(
        [
            '@id("p{}") permit (principal, action, resource in UrlPath::"https://evil.example/vendor");',
            '@id("p{}") permit (principal, action, resource == Endpoint::"https://evil.example/vendor/x");',
            '@id("p{}") permit (principal, action, resource in Host::"evil.example");',
            '@id("p{}") permit (principal, action in Action::"web/fetch", resource is Endpoint);',
            '@id("p{}") permit (principal == Agent::"coder-1", action, resource);',
        ]
    ),
    max_size=4,
)


@given(PERMITS, st.sampled_from(["Domain", "Host"]), st.booleans())
def test_ur4_no_permit_is_an_exception_to_a_forbid(permits: list[str], kind: str, first: bool) -> None:
    forbid = f'@id("no") forbid (principal, action, resource in {kind}::"evil.example");'
    written = [permit.format(index) for index, permit in enumerate(permits)]
    policy = "".join([forbid, *written] if first else [*written, forbid])
    assert fetched("https://evil.example/vendor/x", policy) is Effect.DENY
