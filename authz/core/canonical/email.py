"""Kind `email`: `Mailbox` in `Domain` in … (spec section 4).

A strict subset of RFC 5322, in which all readers agree. What they disagree on is refused instead of
guessed: comments, groups, source routes, quoted local parts that need the quotes, address literals,
encoded words outside display names.

The whole address is lower case. RFC 5321 lets a receiver tell `Ada` from `ada`; mail systems in
practice do not, so a forbid on one mailbox must not be passed by a letter's case.
"""

import re
import unicodedata

from authz.core.canonical.host import parse_host
from authz.core.canonical.spelling import (
    JsonScalar,
    check_characters,
    has_invisible,
    nfc,
    percent_encoded,
    wrong_type,
)
from authz.model.resource import Entity, NotCanonical, Resource

MAX_ADDRESSES = 256
MAX_LOCAL_BYTES = 64
"""RFC 5321 4.5.3.1.1."""
MAX_ADDRESS_BYTES = 254
"""RFC 5321 4.5.3.1.3: a path of 256 octets without its angle brackets."""
MAX_TEXT_CHARACTERS = 65536

_QUOTED = r'"(?:[^"\\]|\\.)*"'
# One element of a list: quoted strings hide separators; so does nothing else, for want of agreement.
_ELEMENT = re.compile(rf"(?:{_QUOTED}|[^\",;])*")
_WITH_NAME = re.compile(rf"((?:{_QUOTED}|[^\"<>@,;:\\()\[\]])*)<([^<>]*)>")
_QUOTED_LOCAL = re.compile(rf"({_QUOTED})@([^@]*)")
_DOT_ATOM = re.compile(r"[^\x00-\x20\x7f()<>\[\]:;@\\,.\"]+(?:\.[^\x00-\x20\x7f()<>\[\]:;@\\,.\"]+)*")
_ESCAPED = re.compile(r"\\(.)")
_OUTSIDE_QUOTES = re.compile(_QUOTED)


def canonicalize_email(value: JsonScalar) -> tuple[Resource, ...] | NotCanonical:
    """The mailboxes that `value`, one address or a list of them, names, each once, in order."""
    if not isinstance(value, str):
        return wrong_type("email")
    if len(value) > MAX_TEXT_CHARACTERS:
        return NotCanonical(
            code="email.too_long", message="the list of addresses is too long, split the call"
        )
    if refused := check_characters("email", value):
        return refused
    elements = _split_list(value)
    if isinstance(elements, NotCanonical):
        return elements
    found: dict[str, Resource] = {}
    for element in elements:
        mailbox = _mailbox(element)
        if isinstance(mailbox, NotCanonical):
            return mailbox
        found.setdefault(mailbox.uri, mailbox)
    return tuple(found.values())


def _split_list(text: str) -> list[str] | NotCanonical:
    """The elements between `,` and `;` outside quotes. One separator may end the list."""
    elements = []
    position = 0
    while True:
        end = _ELEMENT.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing, too
        elements.append(text[position:end].strip(" "))
        if end == len(text):
            break
        if text[end] == '"':
            return _refused("invalid", "a quote in the address is not closed")
        position = end + 1
    if len(elements) > 1 and not elements[-1]:
        elements.pop()
    if not all(elements):
        return _refused("invalid", "the list of addresses holds an empty element")
    if len(elements) > MAX_ADDRESSES:
        return _refused("too_many", f"the list holds over {MAX_ADDRESSES} addresses, split the call")
    return elements


def _mailbox(element: str) -> Resource | NotCanonical:
    bare = _OUTSIDE_QUOTES.sub("", element)
    if "(" in bare or ")" in bare:
        return _refused("comment", "comments in addresses are read differently by mail systems, remove them")
    with_name = _WITH_NAME.fullmatch(element)
    if with_name:
        return _address(with_name[2])
    if "<" in bare or ">" in bare:
        return _refused("ambiguous", "quote the display name, and put one address between `<` and `>`")
    return _address(element)


def _address(text: str) -> Resource | NotCanonical:
    quoted = _QUOTED_LOCAL.fullmatch(text)
    if quoted:
        local, domain = _ESCAPED.sub(r"\1", quoted[1][1:-1]), quoted[2]
    else:
        if ":" in text and "[" not in text:
            return _refused("group", "groups and routes are not addresses, list the mailboxes")
        if text.count("@") != 1:
            return _refused("invalid", "an address has one `@` between mailbox and domain")
        local, _, domain = text.partition("@")
    local = nfc(nfc(local).lower())
    if refused := _check_local(local, was_quoted=quoted is not None):
        return refused
    if "[" in domain or ":" in domain:
        return _refused("address_literal", "the domain of an address must be a name")
    host = parse_host(domain)
    if isinstance(host, NotCanonical):
        return _refused("invalid", "the domain of the address is not a valid name")
    if host.is_ip:
        return _refused("address_literal", "the domain of an address must be a name")
    address = f"{local}@{host.id}"
    if len(local.encode()) > MAX_LOCAL_BYTES or len(address.encode()) > MAX_ADDRESS_BYTES:
        return _refused("too_long", "the address is longer than mail systems take")
    entity = Entity(type="Mailbox", id=address, attributes={"local": local, "domain": host.id})
    # RFC 6068 wants `?` and `&` encoded; `@` stands once, since a local part here holds none.
    uri = "mailto:" + percent_encoded(address).replace("&", "%26").replace("/", "%2F")
    return Resource(kind="email", uri=uri, value=address, chain=(entity, *host.chain[1:]))


def _check_local(local: str, *, was_quoted: bool) -> NotCanonical | None:
    if not _DOT_ATOM.fullmatch(local):
        if was_quoted:
            return _refused("quoted_local", "quoted local parts are read differently by mail systems")
        return _refused("invalid", "the part before `@` is not a valid mailbox name")
    if has_invisible(local) or any(unicodedata.category(char)[0] in "ZC" for char in local):
        return _refused("invalid", "the part before `@` holds white space or an invisible character")
    if "=?" in local or "%" in local or "!" in local:
        # Encoded words and the routes `user%host` and `host!user` make some systems deliver elsewhere.
        return _refused("routed", "the part before `@` can be read as a route to another domain")
    return None


def _refused(code: str, message: str) -> NotCanonical:
    return NotCanonical(code=f"email.{code}", message=message)
