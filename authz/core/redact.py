"""What is written to the log in place of secrets: structure kept, values as keyed digests (section 10).

A value is written in the clear only when its reviewed role says that it may be. Payloads,
credentials, undeclared arguments and everything of an unknown tool are digests; the digest is keyed,
so that guessing a short secret needs the key, and equal values can still be told to be equal.

Of an unknown tool's call with more than `MAX_UNKNOWN_LEAVES` values the structure goes too: one digest
of all arguments and the number of their leaves. So does that of an argument with as many undeclared values.
Nobody reviewed what such a call may hold, and a digest for each of many thousand values would keep every
other request waiting.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote_plus

from authz.core.fingerprint import canonical_json, keyed_digest
from authz.core.pointer import Tokens, format_pointer
from authz.model.tool import Role

CLEAR_ROLES: Final = frozenset(
    {Role.TARGET.value, Role.DESTINATION.value, Role.COMMAND.value, Role.AMOUNT.value, Role.OPTION.value}
)
MAX_CLEAR_LENGTH: Final = 2048
MAX_UNKNOWN_LEAVES: Final = 256
_MAX_URI_LENGTH: Final = 2 * MAX_CLEAR_LENGTH
_WHOLE: Final[frozenset[Tokens]] = frozenset({()})

# Well-known shapes of credentials. A second net below the roles: a command line or a url may carry
# a secret that nobody labelled.
_BEGIN: Final = "-----BEGIN"
_PRIVATE_KEY = re.compile(r"-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----")
# Only whether there is one is asked. So every shape ends after a fixed number of characters, and the
# search of a text costs a fixed amount at each of its places.
_TOKEN = re.compile(
    r"""
    (?<!\w) (?:
        (?:sk|pk|rk)[-_](?:live|test|ant|proj)?[-_]?[A-Za-z0-9_-]{16}
      | gh[pousr]_[A-Za-z0-9]{20} | github_pat_[A-Za-z0-9_]{20} | glpat-[A-Za-z0-9_-]{16}
      | xox[abeprs]-[A-Za-z0-9-]{10} | AIza[A-Za-z0-9_-]{30} | (?:AKIA|ASIA)[A-Z0-9]{12}
      | azk_[A-Za-z0-9_-]{20} | npm_[A-Za-z0-9]{30} | pypi-[A-Za-z0-9_-]{40}
    )
    """,
    re.VERBOSE,
)
# A JWT's parts have no bound, and `-eyJ` may stand in a part many times. The lookbehind lets a search
# begin only where a part does, and the atomic group tries only the first `eyJ` of that part: when it has
# no dot where it needs one, neither has a later `eyJ` of the same part.
_JWT = re.compile(
    r"""
    (?<![A-Za-z0-9_-]) (?>[A-Za-z0-9_-]*?(?<!\w)eyJ)
    [A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.
    """,
    re.VERBOSE,
)
_LONG_RUN = re.compile(r"[A-Za-z0-9_-]{11}")
"""Every shape of `_TOKEN` and `_JWT` has one, and few other texts do."""
_AUTHORIZATION = re.compile(r"\b(?:bearer|basic)\s+[A-Za-z0-9+/_.=~-]{8,}", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"""
      (?:pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|access[-_]?key|credential|auth)s?
        ["']?\s*[=:]\s*["']?[^\s"'&,;]{3,}
    | ://[^/\s:@]+:[^/\s:@]+@
    """,
    re.VERBOSE | re.IGNORECASE,
)


# How programs take secrets on their command line. Texts over MAX_CLEAR_LENGTH never get here.
_IN_COMMAND = re.compile(
    r"""
      (?:^|[\s"'])--?[\w-]*(?:pass(?:word|wd|phrase)?|pwd|secret|token|api-?key|access-?key|credential|auth)
        [\w-]*(?:\s+|=)\S
    | (?:^|\s)(?:-u|--user)[\s=]*[^\s:]+:\S
    | \b(?:mysql\w*|mariadb\w*|sshpass|smbclient|redis-cli|ldap\w+|htpasswd)\b[^|;&\n]*\s-[pawb]\s*\S
    | \b(?:configure|config|set|setx|export|login)\b[^|;&\n]*(?:secret|passw|token|key)\w*\s+\S
    | --password-stdin
    """,
    re.VERBOSE | re.IGNORECASE,
)


def looks_secret(text: str) -> bool:
    """Whether `text` holds something of a well-known shape. Cheap conditions stand before each search."""
    if _LONG_RUN.search(text) and (_TOKEN.search(text) or ("eyJ" in text and _JWT.search(text))):
        return True
    if (":" in text or "=" in text) and _ASSIGNED.search(text):
        return True
    # Outside ASCII a letter can fold to one of these words, so only the search itself can tell.
    lowered = text.lower()
    if ("bearer" in lowered or "basic" in lowered or not text.isascii()) and _AUTHORIZATION.search(text):
        return True
    return _BEGIN in text and _PRIVATE_KEY.search(text) is not None


_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|sig|auth|cred|session|code|jwt|sas|otp", re.IGNORECASE)


class RedactedValue(dict[str, Any]):
    """What stands in the log for a value: `{"redacted", "length"}`, and for many values `"leaves"` too.

    A type of its own, so that what was redacted is known from who made it and never from how it looks.
    """


class RedactedText(str):
    """A text of which a part, or all, is a digest."""

    __slots__ = ()


class Redactor:
    """Redacts under one key; pure apart from it.

    Whatever it replaced is a `RedactedValue` or `RedactedText`; what it left in the clear never is.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "Redactor()"

    def digest_of(self, value: Any) -> RedactedValue:
        """What stands in the log for `value`."""
        text = value if isinstance(value, str) else canonical_json(value).decode()
        mac = keyed_digest(self._key, "redaction", type(value).__name__, text)
        return RedactedValue(redacted=f"hmac-sha256:{mac[:32]}", length=len(text))

    def text(self, text: str) -> Any:
        """`text` in the clear, unless it looks like a secret or is longer than a log should carry."""
        if len(text) > MAX_CLEAR_LENGTH or looks_secret(text):
            return self.digest_of(text)
        return text

    def command(self, text: str) -> Any:
        """A command line in the clear, unless it looks secret or hands a secret to a program."""
        if len(text) > MAX_CLEAR_LENGTH or _IN_COMMAND.search(text):
            return self.digest_of(text)
        return self.text(text)

    def uri(self, uri: str) -> str:
        """A uri whose query values are redacted where their name, or they themselves, look secret."""
        path, mark, query = uri.partition("?")
        length = len(path)
        parts = []
        # Every part adds to the length, so one that is too long is known to be before all are redacted.
        for part in query.split("&", _MAX_URI_LENGTH) if mark and length <= _MAX_URI_LENGTH else ():
            parts.append(self._query_part(part))
            length += 1 + len(parts[-1])
            if length > _MAX_URI_LENGTH:
                break
        if length > _MAX_URI_LENGTH or looks_secret(unquote_plus(path)):
            return self.hidden_uri(uri)
        told = path + mark + "&".join(parts)
        return told if told == uri else RedactedText(told)

    def hidden_uri(self, uri: str) -> RedactedText:
        """What stands in the log for a uri of which nothing is to be read."""
        return RedactedText(f"redacted:{self.digest_of(uri)['redacted']}")

    def _query_part(self, part: str) -> str:
        name, equals, value = part.partition("=")
        if not equals:
            value, name = name, ""
        plain = unquote_plus(value)
        if not value or not (
            len(plain) > 256 or _SECRET_NAME.search(unquote_plus(name)) or looks_secret(plain)
        ):
            return part
        redacted = quote(self.digest_of(plain)["redacted"], safe=":-")
        return f"{name}={redacted}" if equals else redacted

    def arguments(
        self,
        arguments: Mapping[str, Any],
        role_of: Callable[[Tokens], str] | None,
        secret: frozenset[Tokens],
        undeclared: frozenset[Tokens] = frozenset(),
    ) -> Any:
        """Arguments with every leaf that is not to be read in the log redacted.

        What is at or beneath an `undeclared` place has no role. `role_of` is `None` when the tool is unknown:
        then nothing is known to be harmless. Of over `MAX_UNKNOWN_LEAVES` leaves of either one digest is told
        instead: `{"redacted", "length", "leaves"}`.
        """
        return self._tree(arguments, (), role_of, secret, undeclared if role_of is not None else _WHOLE)

    def _tree(
        self,
        value: Any,
        tokens: Tokens,
        role_of: Callable[[Tokens], str] | None,
        secret: frozenset[Tokens],
        undeclared: frozenset[Tokens],
    ) -> Any:
        if tokens in undeclared:
            if (leaves := _leaf_count(value)) > MAX_UNKNOWN_LEAVES:
                return RedactedValue(self.digest_of(value), leaves=leaves)
            role_of, undeclared = None, frozenset()
        if isinstance(value, Mapping):
            return {
                self._name(name): self._tree(member, (*tokens, name), role_of, secret, undeclared)
                for name, member in value.items()
            }
        if isinstance(value, list):
            return [
                self._tree(item, (*tokens, str(i)), role_of, secret, undeclared)
                for i, item in enumerate(value)
            ]
        if value is None or value == "":
            return value
        role = role_of(tokens) if role_of is not None else None
        if role not in CLEAR_ROLES or tokens in secret:
            return self.digest_of(value)
        if isinstance(value, str):
            if role == Role.COMMAND:
                return self.command(value)
            # A url in the clear keeps its place; only the secret parts of its query go.
            return self.uri(value) if "://" in value and "?" in value else self.text(value)
        return value

    def pointer(self, tokens: Tokens) -> str:
        """A JSON Pointer whose names are redacted as they are in the arguments."""
        names = tuple(self._name(token) for token in tokens)
        told = format_pointer(names)
        return RedactedText(told) if any(isinstance(name, RedactedText) for name in names) else told

    def _name(self, name: str) -> str:
        if len(name) > 256 or looks_secret(name):
            return RedactedText(self.digest_of(name)["redacted"])
        return name


def _leaf_count(document: Any) -> int:
    """How many scalars, empty arrays and empty objects `document` has."""
    count = 0
    pending = [document]
    while pending:
        value = pending.pop()
        if value and isinstance(value, Mapping):
            pending.extend(value.values())
        elif value and isinstance(value, list):
            pending.extend(value)
        else:
            count += 1
    return count
