"""Kind `url`: `Endpoint` in `UrlPath` segments in `Host` in `Domain` in … (spec section 4).

The first `Host` is the one with the port that is used, also the default one, in the `Host` without: a rule
on `Host::"db.example.com:8443"` means the same for a url as for kind `host`.

Parsed by can_ada, a WHATWG parser, so a browser, Node and this service see the same host. `value`
is the WHATWG serialization; the ids use the dotless, unwrapped host, and have no fragment, which
never reaches a server.

`UrlPath` ids say where the most eager server would find the path: each segment percent-decoded once
and written again in one way, empty segments dropped, an encoded `/` or `\\` taken for a separator. So
`/%61dmin` and `//admin` are in `/admin`. Path parameters (RFC 3986 3.3) do not count either, since some
servers drop them before they look: `/admin;x=1/users` is in `/admin`, and `/;/admin` is `/admin`. The
`Endpoint` keeps the spelling. Where decoding, once or more often, brings a dot segment
into being (`/public/%2e%2e%2fadmin`), servers disagree on the place, and the url has no canonical
form: it is judged as `Opaque`.
"""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import can_ada

from authz.core.canonical.host import KnownHost, known_host, with_port
from authz.core.canonical.spelling import JsonScalar, check_characters, wrong_type
from authz.model.resource import Entity, NotCanonical, Resource

DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
MAX_URL_BYTES = 16384
MAX_SEGMENTS = 128
"""Each is an entity that policy evaluation carries along."""

_STRIPPED = re.compile(r"[\x00-\x1f]")
_DOT_SEGMENT = re.compile(r"/(?:\.|%2[Ee]){1,2}(?:/|$)")
_NEEDS_CARE = re.compile(r"[%^;]|//")
# What WHATWG leaves as it is in a path (its path percent-encode set, without the separators).
_PLAIN = frozenset(b"!$&'()*+,-.:;=@[]_|~") | frozenset(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
_MAX_DECODINGS = 8
_OVERLONG = ((b"\xc0\xae", b"."), (b"\xc0\xaf", b"/"), (b"\xc1\x9c", b"\\"))
_CACHED_PATH_CHARACTERS = 200
_CACHED_SEGMENTS = 16
"""What is longer or deeper is not remembered, so that nobody can fill memory: of 1,024 folders, at most 17
entities each, which is some 8 MB."""

_INVALID = NotCanonical(code="url.invalid", message="the url is not a valid absolute url")
_TOO_LONG = NotCanonical(code="url.too_long", message=f"the url is over {MAX_URL_BYTES} bytes")
_AMBIGUOUS = NotCanonical(
    code="url.ambiguous_path",
    message="the path of the url holds encoded dot segments that servers resolve differently, resolve them",
    understood=False,
)


def canonicalize_url(value: JsonScalar) -> tuple[Resource, ...] | NotCanonical:
    """The endpoint that `value`, an absolute url, names."""
    if not isinstance(value, str):
        return wrong_type("url")
    if refused := _check_spelling(value):
        return refused
    try:
        url = can_ada.parse(value)
    except ValueError:
        return _INVALID
    scheme = url.protocol[:-1]
    if scheme not in DEFAULT_PORTS:
        return NotCanonical(
            code="url.scheme",
            message="the scheme of the url is not http, https, ws, wss or ftp",
            understood=False,
        )
    if url.has_credentials():
        return NotCanonical(code="url.userinfo", message="the url holds a user name or password, remove it")
    host = known_host(url.hostname)
    if isinstance(host, NotCanonical):
        return NotCanonical(code=host.code.replace("host.", "url.host_"), message=host.message)
    return _endpoint(url, scheme, host)


def _endpoint(url: can_ada.URL, scheme: str, host: KnownHost) -> tuple[Resource, ...] | NotCanonical:
    origin = f"{scheme}://{host.in_url}"
    port = url.port
    if port:
        origin = f"{origin}:{port}"
    href = str(url)
    if len(href) > MAX_URL_BYTES:
        return _TOO_LONG  # it was shorter before its characters were percent-encoded
    # No userinfo is left, so `scheme://host` is a prefix of the serialization.
    start = len(scheme) + 3 + len(url.host)
    pathname = url.pathname
    if _DOT_SEGMENT.search(pathname):
        resolved = _resolved(pathname)
        href = href[:start] + resolved + href[start + len(pathname) :]
        pathname = resolved
    rest = href[start:].partition("#")[0]
    segments = _segments(pathname)
    if isinstance(segments, NotCanonical):
        return segments
    attributes = host.chain[0].attributes
    port_number = int(port) if port else DEFAULT_PORTS[scheme]
    endpoint = Entity(
        type="Endpoint",
        id=origin + rest,
        attributes={
            "scheme": scheme,
            "host": host.id,
            "port": port_number,
            "class": attributes["class"],
            "host_class": attributes["host_class"],
            "path": "/" + "/".join(segments),
            "has_query": "?" in rest,
        },
    )
    chain = (endpoint, *_url_paths(origin, segments), with_port(host, port_number), *host.chain)
    return (Resource(kind="url", uri=endpoint.id, value=href, chain=chain),)


def _check_spelling(text: str) -> NotCanonical | None:
    """Refuse what WHATWG would silently strip: it hides a host from whoever reads the url."""
    if len(text) > MAX_URL_BYTES:
        return _TOO_LONG
    if text.isascii() and text.isprintable() and text[:1] != " " and text[-1:] != " ":
        return None
    if _STRIPPED.search(text) or text.strip() != text or text.strip("\ufeff\u200b") != text:
        return NotCanonical(
            code="url.control_character",
            message="the url holds a control character, or begins or ends with white space, remove it",
        )
    return check_characters("url", text)


def _url_paths(origin: str, segments: tuple[str, ...]) -> tuple[Entity, ...]:
    if not segments:
        return _known_chain(origin, segments)
    whole = Entity(type="UrlPath", id=f"{origin}/{'/'.join(segments)}")
    # Many urls share all but the last segment, so it is the rest that is worth remembering.
    short = len(whole.id) <= _CACHED_PATH_CHARACTERS and len(segments) <= _CACHED_SEGMENTS
    return (whole, *(_known_chain if short else _build_chain)(origin, segments[:-1]))


def _build_chain(origin: str, segments: tuple[str, ...]) -> tuple[Entity, ...]:
    return tuple(
        Entity(type="UrlPath", id=f"{origin}/{'/'.join(segments[:end])}")
        for end in range(len(segments), -1, -1)
    )


_known_chain = lru_cache(maxsize=1024)(_build_chain)


def _resolved(pathname: str) -> str:
    """`pathname` without dot segments, by the path state of the WHATWG parser.

    can_ada (and Node, which has the same engine) leaves them standing behind a segment that begins
    with a dot: `/public/.a/../../admin` came out unchanged, and a server takes it for `/admin`.
    """
    segments: list[str] = []
    is_dots = False
    for segment in pathname.split("/")[1:]:
        plain = segment.lower().replace("%2e", ".")
        is_dots = plain in {".", ".."}
        if plain == ".." and segments:
            segments.pop()
        elif not is_dots:
            segments.append(segment)
    # A dot segment at the end stands for the folder: `/a/.` is `/a/`.
    return "/" + "/".join([*segments, ""] if is_dots else segments)


def _segments(pathname: str) -> tuple[str, ...] | NotCanonical:
    if not _NEEDS_CARE.search(pathname):
        segments = pathname.strip("/").split("/") if pathname != "/" else []
    else:
        decoded = pathname.encode()
        if _has_hidden_dots(decoded):
            return _AMBIGUOUS
        parts = unquote_to_bytes(decoded).replace(b"\\", b"/").split(b"/")
        # A segment that is all parameters is an empty one, which is dropped like the others.
        plain = (part.partition(b";")[0] for part in parts)
        segments = ["".join(map(_written, part)) for part in plain if part]
    if len(segments) > MAX_SEGMENTS:
        return NotCanonical(
            code="url.too_deep", message=f"the path of the url has over {MAX_SEGMENTS} segments"
        )
    return tuple(segments)


def _has_hidden_dots(path: bytes) -> bool:
    """Whether decoding brings a `.` or `..` into being, also before `;` (servers drop parameters).

    WHATWG has resolved the plain and the singly encoded ones, so each that is found now stands
    behind an encoded separator, a second encoding, an overlong UTF-8 form or a parameter.
    """
    for _ in range(_MAX_DECODINGS):
        plain = path
        for overlong, char in _OVERLONG:
            plain = plain.replace(overlong, char)
        parts = plain.replace(b"\\", b"/").split(b"/")
        if any(part.partition(b";")[0] in {b".", b".."} for part in parts):
            return True
        decoded = unquote_to_bytes(path)
        if decoded == path:
            return False
        path = decoded
    return True  # nobody encodes a path this often to say something


def _written(byte: int) -> str:
    return chr(byte) if byte in _PLAIN else f"%{byte:02X}"
