"""What is kept of conditions: digests for the values that an argument must equal, the rest as it is."""

import json
from typing import Any

import pytest
from authz_client.capabilities import Entry, parse_entries
from authz_client.capabilities import Refusal as TokenRefusal

from authz.core.capability_told import kept, told
from authz.core.capability_tree import gave_up
from authz.core.redact import Redactor
from tests.support.chains import entry

REDACTOR = Redactor(b"r" * 32)
SECRET = "hunter2-of-the-constraint"
WIDE = entry("read", "file:///w", constraints={"to": {"one_of": [SECRET, "b", 1]}, "n": {"max": 9}})
NARROW = entry("read", "file:///w", constraints={"to": {"one_of": ["b"], "equals": "b"}, "n": {"max": 9}})


def parsed(*details: Any) -> tuple[Entry, ...]:
    found = parse_entries(json.loads(json.dumps(kept(list(details), REDACTOR))))
    assert not isinstance(found, TokenRefusal)
    return found


@pytest.mark.parametrize("keep", [kept, told])
@pytest.mark.parametrize(
    "members", [{"equals": SECRET}, {"one_of": ["a", SECRET]}, {"equals": {"deep": [SECRET]}}]
)
def test_no_value_that_an_argument_must_equal_is_kept(keep: Any, members: dict[str, Any]) -> None:
    details = [entry("read", "file:///w", constraints={"/to": members, "n": {"max": 7}})]
    text = json.dumps(keep(details, REDACTOR))
    assert SECRET not in text
    assert '"max": 7' in text
    assert "file:///w" in text


def test_log_and_store_say_the_same() -> None:
    for value in ([WIDE], [NARROW]):
        assert kept(value, REDACTOR) == told(value, REDACTOR)
        assert told(kept(value, REDACTOR), REDACTOR, is_kept=True) == kept(value, REDACTOR)


def test_what_was_given_up_can_still_be_told() -> None:
    wide, narrow = parsed(WIDE), parsed(NARROW)
    assert gave_up(wide, wide) == {}
    lost = gave_up(narrow, wide)
    assert list(lost) == ["predicate"]
    assert SECRET not in json.dumps(lost)
    assert "wider" in gave_up(wide, narrow)


def test_equal_values_have_equal_digests() -> None:
    same = [parsed(entry("read", "file:///w", constraints={"n": {"equals": value}})) for value in (1, 1.0)]
    assert gave_up(same[0], same[1]) == {}
    other = parsed(entry("read", "file:///w", constraints={"n": {"equals": True}}))
    assert "wider" in gave_up(other, same[0])
