"""The public failure cases of kind `url`: what counts is the parsed host, by label and by value."""

from typing import Final

import pytest

from tests.cases.judged import accesses_of, check
from tests.cases.served import ids_of_kind, ids_of_tests
from tests.support.world import PERMIT_ALL, WEB, faults_of, world


def fetch(policy: str, url: str, effect: str, *rules: str) -> set[str]:
    return accesses_of(check(world(policy, tools=WEB), "web/fetch", {"url": url}, effect, list(rules)))


def only(domain: str) -> str:
    return f'@id("only") permit (principal, action in Action::"connect", resource in Domain::"{domain}");'


def no(place: str) -> str:
    return f'{PERMIT_ALL} @id("no") forbid (principal, action, resource in {place});'


@pytest.mark.parametrize(
    "url",
    [
        "https://nottrusted.example/x",
        "https://trusted.example.evil.test/",
        "https://trusted-example/",
        "https://xtrusted.example/",
    ],
)
def test_bug_058_a_suffix_is_no_domain(url: str) -> None:
    """A `Domain` is the domain itself and whatever is under it, in permits and in forbids alike."""
    fetch(only("trusted.example"), url, "deny")
    fetch(no('Domain::"trusted.example"'), url, "allow", "everything")
    for inside in (
        "https://trusted.example/",
        "https://a.b.trusted.example./x",
        "https://TRUSTED.example:8443/",
    ):
        fetch(only("trusted.example"), inside, "allow", "only")
        fetch(no('Domain::"trusted.example"'), inside, "deny", "no")


@pytest.mark.parametrize(
    "url",
    [
        "https://attacker.test?https://docs.example.com/",
        "https://attacker.test/https://docs.example.com/",
        "https://attacker.test#docs.example.com",
        "https://docs.example.com.attacker.test/",
        "https://docs.example.com%2eattacker.test/",
        "https://attacker.test\\docs.example.com/",
    ],
)
def test_bug_061_only_the_parsed_host_counts(url: str) -> None:
    fetch(only("docs.example.com"), url, "deny")
    fetch(only("docs.example.com"), "https://docs.example.com/?https://attacker.test", "allow", "only")


def test_bug_062_a_domain_covers_any_depth_in_every_position() -> None:
    ask = (
        f'{PERMIT_ALL} @id("ask") @requires("approval") forbid '
        '(principal, action, resource in Domain::"example.com");'
    )
    for url in ("https://a.b.example.com/", "https://example.com/", "http://a.EXAMPLE.com.:80"):
        fetch(no('Domain::"example.com"'), url, "deny", "no")
        fetch(only("example.com"), url, "allow", "only")
        fetch(ask, url, "require_approval", "ask")
    # There is no wildcard that could fail to match: one is refused when it is read.
    assert faults_of(no('Domain::"*.example.com"'), tools=WEB)


INSIDE: Final = (
    f'{PERMIT_ALL} @id("inside") forbid (principal, action, resource is Endpoint) '
    'unless { ["name", "public"].contains(resource.class) };'
)


@pytest.mark.parametrize(
    "host",
    [
        *("[::ffff:a9fe:a9fe]", "[::ffff:169.254.169.254]", "169.254.169.254", "2852039166", "0xa9fea9fe"),
        *("0251.0376.0251.0376", "169.254.43518", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "127.1", "0"),
        *(
            "[::]",
            "[::1]",
            "10.0.0.1",
            "[fc00::1]",
            "[fe80::1]",
            "192.168.1.1",
            "100.64.0.1",
            "[::127.0.0.1]",
        ),
    ],
)
def test_bug_064_addresses_are_judged_by_value(host: str) -> None:
    fetch(INSIDE, f"http://{host}/latest", "deny", "inside")
    fetch(INSIDE, "http://93.184.215.14/latest", "allow", "everything")


def test_bug_066_no_list_is_above_a_rule_that_denies() -> None:
    """There is no built-in list; a permit for a path of the host does not lift what forbids the host."""
    vendor = (
        '@id("vendor") permit (principal, action, resource in UrlPath::"https://code.example.com/vendor");'
    )
    rule = '@id("no") forbid (principal, action, resource in Host::"code.example.com");'
    fetch(vendor + rule, "https://code.example.com/vendor/x", "deny", "no")
    fetch(vendor, "https://code.example.com/vendor/x", "allow", "vendor")
    fetch(vendor, "https://code.example.com/vendor2/x", "deny")


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("url")
