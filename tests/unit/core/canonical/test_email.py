"""Kind `email`: one mailbox, whatever stands around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical import canonicalize
from authz.model.resource import Base, NotCanonical
from tests.support.canonical import ancestors, is_in, refusal, resource


@pytest.mark.parametrize(
    "spelled",
    [
        "ada@example.com",
        "Ada@Example.COM",
        "<ada@example.com>",
        "Ada <ada@example.com>",
        "Ada L. <ada@example.com>",
        '"Ada L." <ada@example.com>',
        '"Lovelace, Ada; (x) <y@z>" <ada@example.com>',
        '"a \\" b" <ada@example.com>',
        "=?utf-8?q?Ad=C3=A4?= <ada@example.com>",
        '"ada"@example.com',
        '"a\\da"@example.com',
        "ada@example.com.",
        "ada@example\u3002com",
        "  ada@example.com  ",
        "ada@example.com,",
        "ada@example.com; ADA@example.com",
    ],
)
def test_one_mailbox_has_one_spelling(spelled: str) -> None:
    found = resource("email", spelled)
    assert found.value == "ada@example.com"
    assert found.uri == "mailto:ada@example.com"


def test_a_list_is_several_mailboxes() -> None:
    result = canonicalize("email", '"L, A" <ada@a.example>, bob@b.example; Cy <cy@c.example>', Base())
    assert not isinstance(result, NotCanonical)
    assert [found.value for found in result] == ["ada@a.example", "bob@b.example", "cy@c.example"]


def test_one_bad_address_refuses_the_list() -> None:
    assert refusal("email", "ada@a.example, bob").code == "email.invalid"


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("", "email.invalid"),
        (",", "email.invalid"),
        ("a@x.example,,b@x.example", "email.invalid"),
        (",a@x.example", "email.invalid"),
        ("ada", "email.invalid"),
        ("@example.com", "email.invalid"),
        ("ada@", "email.invalid"),
        ("ada@b@example.com", "email.invalid"),
        (".ada@example.com", "email.invalid"),
        ("ada.@example.com", "email.invalid"),
        ("a..b@example.com", "email.invalid"),
        ("a b@example.com", "email.invalid"),
        ("a\u200bb@example.com", "email.invalid"),
        ("a\u202eb@example.com", "email.invalid"),
        ("ada\u200b@example.com", "email.invalid"),
        ("a\u00add@example.com", "email.invalid"),
        ("ada\ue000@example.com", "email.invalid"),
        ("ada\U000e0041@example.com", "email.invalid"),
        ("ada\ufe0f@example.com", "email.invalid"),
        ("ada\u3164@example.com", "email.invalid"),
        ("a\u00a0d@example.com", "email.invalid"),
        ('"ada\u200b"@example.com', "email.invalid"),
        ("ada@exa mple.com", "email.invalid"),
        ("ada@*.example.com", "email.invalid"),
        ("ada@-x.example", "email.invalid"),
        ("ada@example.com/x", "email.invalid"),
        ('"ada <ada@example.com>', "email.invalid"),
        ("ada(x)@example.com", "email.comment"),
        ("ada@example.com (Ada)", "email.comment"),
        ("ada@(x)example.com", "email.comment"),
        ("team: ada@example.com;", "email.group"),
        ("@relay.example:ada@example.com", "email.group"),
        ("mailto:ada@example.com", "email.group"),
        ('"a b"@example.com', "email.quoted_local"),
        ('"a@evil.test"@example.com', "email.quoted_local"),
        ('""@example.com', "email.quoted_local"),
        ("ada@[127.0.0.1]", "email.address_literal"),
        ("ada@[IPv6:::1]", "email.address_literal"),
        ("ada@127.0.0.1", "email.address_literal"),
        ("ada@2130706433", "email.address_literal"),
        ("ada@example.com <eve@evil.test>", "email.ambiguous"),
        ("<ada@example.com> <eve@evil.test>", "email.ambiguous"),
        ("<<ada@example.com>>", "email.ambiguous"),
        ("Ada <ada@example.com> x", "email.ambiguous"),
        ("ada@example.com>", "email.ambiguous"),
        ("ada%evil.test@example.com", "email.routed"),
        ("evil.test!ada@example.com", "email.routed"),
        ("=?x?q?eve=40evil.test=3e?=@example.com", "email.routed"),
        ("a" * 65 + "@example.com", "email.too_long"),
        ("ada@" + ".".join(["a" * 60] * 5), "email.invalid"),
        ("ada@example.com\r\nBcc: eve@evil.test", "email.control_character"),
        ("ada@example.com\0", "email.control_character"),
        ("ada\ud800@example.com", "email.surrogate"),
        (",".join(f"a{n}@x.example" for n in range(300)), "email.too_many"),
        ("a" * 70_000, "email.too_long"),
    ],
)
def test_what_mail_systems_read_differently_is_refused(spelled: str, code: str) -> None:
    refused = refusal("email", spelled)
    assert (refused.code, refused.understood) == (code, True)


@pytest.mark.parametrize("value", [None, True, 1, 1.5])
def test_only_strings_are_addresses(value: bool | float | None) -> None:
    assert refusal("email", value).code == "email.type"


def test_chain_and_attributes() -> None:
    found = resource("email", "Ada@mail.example.com")
    assert ancestors(found) == [
        'Mailbox::"ada@mail.example.com"',
        'Domain::"mail.example.com"',
        'Domain::"example.com"',
        'Domain::"com"',
    ]
    assert found.entity.attributes == {"local": "ada", "domain": "mail.example.com"}
    assert not is_in(resource("email", "ada@notexample.com"), "Domain", "example.com")


def test_uri_is_percent_encoded() -> None:
    assert resource("email", "a&b/c?d+e@example.com").uri == "mailto:a%26b%2Fc%3Fd+e@example.com"
    assert resource("email", "adä@bücher.example").uri == "mailto:ad%C3%A4@xn--bcher-kva.example"


LOCAL = st.text(st.sampled_from("abcXYZ019+-_.äÉİß'"), min_size=1, max_size=12)
NAME = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cc", "Cs"]), max_size=20)


@given(LOCAL, NAME)
def test_case_and_display_name_do_not_matter(local: str, name: str) -> None:
    plain = canonicalize("email", f"{local}@example.com", Base())
    if isinstance(plain, NotCanonical):
        return
    assert canonicalize("email", f'"{name}" <{local}@EXAMPLE.com>', Base()) == plain
    assert canonicalize("email", plain[0].value, Base()) == plain
    if local.isascii():
        assert canonicalize("email", f"{local.upper()}@example.com", Base()) == plain


@given(st.text(st.sampled_from('ab@.,;:<>()[]"\\ %!=?ä'), max_size=30))
def test_canonical_is_stable_and_plain(text: str) -> None:
    result = canonicalize("email", text, Base())
    if isinstance(result, NotCanonical):
        return
    for found in result:
        assert canonicalize("email", found.value, Base()) == (found,)
        assert found.value.count("@") == 1
        assert not set(found.value) & set('<>()[]",;: \\%!')
    assert canonicalize("email", ", ".join(found.value for found in result), Base()) == result


@given(
    st.text("abc.", max_size=4).map("a{}a".format),
    st.characters(categories=["Cf", "Cc", "Co", "Zl", "Zp", "Zs"])
    | st.sampled_from("\u034f\u3164\ufe0f\uffa0"),
)
def test_no_mailbox_looks_like_another(local: str, hidden: str) -> None:
    for spelled in (
        f"{local}{hidden}@example.com",
        f"{hidden}{local}@example.com",
        f"{local}{hidden}b@example.com",
    ):
        found = canonicalize("email", spelled, Base())
        # A plain space at the beginning stands outside the address.
        assert isinstance(found, NotCanonical) or (hidden == " " and spelled.startswith(" "))
