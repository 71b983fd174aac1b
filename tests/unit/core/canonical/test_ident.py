"""Kind `id`: objects of a declared type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical import canonicalize
from authz.model.resource import Base, NotCanonical
from tests.support.canonical import ancestors, refusal, resource


@pytest.mark.parametrize(
    ("value", "canonical", "uri"),
    [
        ("acc-1", "acc-1", "id:account:acc-1"),
        (" acc-1\u00a0", "acc-1", "id:account:acc-1"),
        (7, "7", "id:account:7"),
        (-7, "-7", "id:account:-7"),
        ("Acc", "Acc", "id:account:Acc"),
        ("cafe\u0301", "caf\u00e9", "id:account:caf%C3%A9"),
        ("a/b:c d", "a/b:c d", "id:account:a%2Fb:c%20d"),
        ("x" * 256, "x" * 256, "id:account:" + "x" * 256),
    ],
)
def test_one_object_has_one_spelling(value: str | int, canonical: str, uri: str) -> None:
    found = resource("id", value, object_type="account")
    assert (found.value, found.uri) == (canonical, uri)
    assert ancestors(found) == [f'Object::"account:{canonical}"', 'ObjectType::"account"']
    assert found.entity.attributes == {"type": "account", "value": canonical}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "id.empty"),
        ("  ", "id.empty"),
        ("a\nb", "id.control_character"),
        ("a\0", "id.control_character"),
        ("a\u2028b", "id.control_character"),
        ("a\ud800", "id.surrogate"),
        ("ops\u200b", "id.invisible_character"),
        ("\u200bops", "id.invisible_character"),
        ("o\u00adps", "id.invisible_character"),
        ("o\u202eps", "id.invisible_character"),
        ("ops\ufeff", "id.invisible_character"),
        ("ops\ue000", "id.invisible_character"),
        ("ops\U000e0041", "id.invisible_character"),
        ("ops\ufe0f", "id.invisible_character"),
        ("ops\u3164", "id.invisible_character"),
        ("a\u00a0b", "id.odd_space"),
        ("a\u3000b", "id.odd_space"),
        ("a\u202fb", "id.odd_space"),
        ("x" * 257, "id.too_long"),
        (10**300, "id.too_long"),
        pytest.param(10**20_000, "id.too_long", id="more digits than str() takes"),
        (None, "id.type"),
        (True, "id.type"),
        (1.5, "id.type"),
    ],
)
def test_what_is_no_id_is_refused(value: bool | float | str | None, code: str) -> None:
    refused = refusal("id", value, object_type="account")
    assert (refused.code, refused.understood) == (code, True)


@pytest.mark.parametrize("object_type", [None, "", "Account", "1x", "a-b", "a b", "konto_ä", "x" * 300])
def test_the_type_is_declared_and_an_identifier(object_type: str | None) -> None:
    assert refusal("id", "1", object_type=object_type).code == "id.object_type"


@pytest.mark.parametrize(
    "spelled",
    [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "de89370400440532013000",
        " DE89\u00a03704 00440532013000",
    ],
)
def test_one_iban_has_one_spelling(spelled: str) -> None:
    assert resource("id", spelled, object_type="iban").entity.id == "iban:DE89370400440532013000"


@pytest.mark.parametrize(
    "iban", ["GB82WEST12345698765432", "NO9386011117947", "MT84MALT011000012345MTLCAST001S"]
)
def test_ibans_of_other_countries(iban: str) -> None:
    assert resource("id", iban, object_type="iban").value == iban


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("DE88370400440532013000", "id.iban_check_digits"),
        ("DE89370400440532013001", "id.iban_check_digits"),
        ("DE98370400440532013000", "id.iban_check_digits"),
        ("DE89-3704-0044", "id.iban_format"),
        ("DE8937", "id.iban_format"),
        ("8937040044053201300", "id.iban_format"),
        (89370400440532013000, "id.iban_format"),
        ("DE\u0668\u0669370400440532013000", "id.iban_format"),
        ("DE89" + "1" * 31, "id.iban_format"),
    ],
)
def test_wrong_ibans_are_refused(spelled: str | int, code: str) -> None:
    assert refusal("id", spelled, object_type="iban").code == code


@given(st.from_regex(r"[0-9A-Z]{11,30}", fullmatch=True))
def test_exactly_one_pair_of_check_digits_is_right(account: str) -> None:
    right = [
        check
        for check in range(100)
        if not isinstance(
            canonicalize("id", f"DE{check:02}{account}", Base(), object_type="iban"), NotCanonical
        )
    ]
    assert len(right) == 1


@given(st.text(max_size=20), st.text(max_size=20))
def test_different_types_never_share_an_object(left: str, right: str) -> None:
    first = canonicalize("id", left, Base(), object_type="a")
    second = canonicalize("id", right, Base(), object_type="ab")
    if not isinstance(first, NotCanonical) and not isinstance(second, NotCanonical):
        assert first[0].entity.id != second[0].entity.id
        assert first[0].uri != second[0].uri


HIDDEN = st.one_of(
    st.characters(categories=["Cf", "Co", "Zl", "Zp"]),
    st.characters(categories=["Zs"], exclude_characters=" "),
    st.sampled_from("\u034f\u115f\u17b4\u180b\u2065\u3164\ufe00\uffa0\ufff0\U000e0000\U000e01ef\U000e0fff"),
)


@given(st.text("abc019-:/", min_size=1, max_size=8), st.text("abc019-:/", min_size=1, max_size=8), HIDDEN)
def test_no_id_looks_like_another(before: str, after: str, hidden: str) -> None:
    assert refusal("id", before + hidden + after, object_type="account")
    with_it = canonicalize("id", before + hidden, Base(), object_type="account")
    # White space at an end is trimmed, so there the id is the plain one.
    plain = resource("id", before, object_type="account")
    assert isinstance(with_it, NotCanonical) or with_it == (plain,)


@given(st.one_of(st.text(max_size=30), st.integers()))
def test_canonical_is_stable(value: str | int) -> None:
    first = canonicalize("id", value, Base(), object_type="account")
    if not isinstance(first, NotCanonical):
        assert canonicalize("id", first[0].value, Base(), object_type="account") == first
