"""What may be kept of a capability's conditions: not the values that an argument must be equal to.

Those may be secrets whatever they look like, so a keyed digest stands for each, in the log and in the store
alike. Equal values have equal digests, so that it can still be told what a link gave up.
"""

from typing import Any, Final

from authz.core.redact import Redactor

_EXACT: Final = frozenset({"equals", "one_of"})


def kept(value: Any, redactor: Redactor) -> Any:
    """A JSON value with a digest for everything that `equals` or `one_of` names."""
    if isinstance(value, list):
        return [kept(item, redactor) for item in value]
    if isinstance(value, dict):
        return {
            name: _digests(name, item, redactor) if name in _EXACT else kept(item, redactor)
            for name, item in value.items()
        }
    return value


def told(value: Any, redactor: Redactor, *, is_kept: bool = False) -> Any:
    """The same for the log, with every other text redacted where it looks like a secret.

    `is_kept` is for what has its digests already: that is known from where it comes, never from its looks.
    """
    if isinstance(value, str):
        return redactor.uri(value) if "://" in value else redactor.text(value)
    if isinstance(value, list):
        return [told(item, redactor, is_kept=is_kept) for item in value]
    if isinstance(value, dict):
        return {
            redactor.pointer((name,))[1:]: _member(name, item, redactor, is_kept)
            for name, item in value.items()
        }
    return value


def _member(name: str, value: Any, redactor: Redactor, is_kept: bool) -> Any:
    if name not in _EXACT:
        return told(value, redactor, is_kept=is_kept)
    return value if is_kept else _digests(name, value, redactor)


def _digests(name: str, value: Any, redactor: Redactor) -> Any:
    if name == "one_of" and isinstance(value, list):
        return [_digest(item, redactor) for item in value]
    return _digest(value, redactor)


def _digest(value: Any, redactor: Redactor) -> Any:
    # `1.0` is `1`: see `authz_client.capabilities.constraints`.
    if type(value) is float and value.is_integer():
        value = int(value)
    return dict(redactor.digest_of(value))
