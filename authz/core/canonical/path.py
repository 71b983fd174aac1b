"""Kind `path`: `File` in `Directory` in … up to `Directory::"/"`, lexically (spec section 4).

Nothing here looks at a disk: links and mounts are resolved where the file is, and both forms are
judged. `value` keeps the spelled case; entity ids and the uri carry the case key of a volume that
folds case, so that a rule and a request for one file meet.
"""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from authz.core.canonical.spelling import (
    JsonScalar,
    check_characters,
    has_invisible,
    nfc,
    percent_encoded,
    wrong_type,
)
from authz.core.canonical.windows import DEVICE_NAMES, begins_like_windows, is_windows_spelling
from authz.model.resource import Base, Entity, NotCanonical, Resource, Volume

MAX_PATH_BYTES = 4096
"""PATH_MAX on Linux."""
MAX_COMPONENT_BYTES = 255
"""NAME_MAX on Linux."""
MAX_DEPTH = 256
"""Components of one path: each is an entity that policy evaluation carries along."""
_CACHED_PATH_CHARACTERS = 200
_CACHED_DEPTH = 24
"""Longer and deeper folders are not remembered, so that nobody can fill memory with ancestors: of 1,024
folders, at most 25 entities each, which is some 10 MB."""

# What a path must not hold to be its own normal form: anything that the long way would look at.
_NEEDS_CARE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\~:]"
    rf"|/(?:/|\.\.?(?:/|$)|$|\?/|(?i:{DEVICE_NAMES})(?:/|$))"
    r"|[. ](?:/|$)|^/(?i:proc|dev)/"
)
# What more than dots and slashes has to be looked at for: a name that is none of its components.
_NOT_ONLY_DOTS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\~:]|//\?/")
# Links of a process to other files, and the names of its own open files. What they lead to depends on who
# asks, so a rule on the file itself would be passed.
_PROCESS_ALIAS = re.compile(
    r"/proc/(?:self|thread-self|[0-9]+)/(?:root|cwd|fd|exe|task|map_files)(?:/|$)|/dev/(?:fd|std(?:in|out|err))(?:/|$)"
)
_FILE_URI = re.compile(r"file:", re.IGNORECASE)
_FILE_URI_PARTS = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.IGNORECASE | re.DOTALL)
_URI_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_URI_DRIVE = re.compile(r"/[A-Za-z][:|](?:/|$)")
_LEADING_DRIVE = re.compile(r"[A-Za-z]:")
_POSIX = Volume()

_WINDOWS = NotCanonical(
    code="path.windows",
    message="the path is spelled for Windows and this volume is POSIX, use `/` and a plain name",
    understood=False,
)
_ALIAS = NotCanonical(
    code="path.process_alias",
    message="the path leads to another file by way of a process, name that file itself",
    understood=False,
)
_AMBIGUOUS_NAME = NotCanonical(
    code="path.ambiguous_name",
    message="a name in the path ends in a dot or a space or holds an invisible character, and this volume "
    "may take it for another name, use a plain name",
    understood=False,
)
_NO_DIRECTORY = NotCanonical(
    code="path.relative_without_directory",
    message="the path is relative and no absolute working directory was declared, send an absolute path",
    understood=False,
)


class SharedFolders:
    """What the files of one call have in common: a folder is one entity, however many files lie in it.

    The folders above one file can take a megabyte, so for many files of a long folder this is what keeps
    them from taking a hundred. It lives no longer than the call.
    """

    __slots__ = ("entities", "names")

    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}
        self.names: dict[str, str] = {}


def canonicalize_path(
    value: JsonScalar, base: Base, shared: SharedFolders | None = None
) -> tuple[Resource, ...] | NotCanonical:
    """The one file that `value` spells, relative to `base`. `shared` is of the call that names several."""
    if not isinstance(value, str):
        return wrong_type("path")
    spelled = lexical_path(value, base)
    if isinstance(spelled, NotCanonical):
        return spelled
    key = spelled if base.volume.case_sensitive else case_key(spelled, base.volume)
    directories = directory_chain(key, shared)
    name = key.rpartition("/")[2]
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    # Folded also where the volume does not fold: a rule on a name should not be passed by its case.
    names = tuple(dict.fromkeys(key.casefold().split("/")[1:])) if name else ()
    if shared is not None and len(names) > _CACHED_DEPTH:
        names = tuple(shared.names.setdefault(one, one) for one in names)
    file = Entity(type="File", id=key, attributes={"name": name, "extension": extension, "names": names})
    uri = "file://" + percent_encoded(key)
    return (Resource(kind="path", uri=uri, value=spelled, chain=(file, *directories)),)


def lexical_path(text: str, base: Base) -> str | NotCanonical:
    """The absolute lexical normal form of `text`, in the letter case it was spelled in."""
    if not text:
        return NotCanonical(code="path.empty", message="the path is empty, name a file or directory")
    # Most paths are normal as they are, or once joined, and short enough whatever their components.
    plain = text if text[:1] == "/" or not base.cwd else f"{base.cwd}/{text}"
    if len(plain) <= MAX_COMPONENT_BYTES and plain[:1] == "/" and plain.isascii():
        if not _NEEDS_CARE.search(plain):
            return plain
        # Of the others, most hold `..` and no more.
        if not _NOT_ONLY_DOTS.search(plain):
            plain = "/" + "/".join(_resolved(plain))
            if not _NEEDS_CARE.search(plain):
                return plain
    if refused := check_characters("path", text):
        return refused
    if _FILE_URI.match(text):
        from_uri = _path_of_file_uri(text)
        if isinstance(from_uri, NotCanonical):
            return from_uri
        text = from_uri
    elif _URI_SCHEME.match(text):
        # `https://x/y` would be a file below a directory called `https:`; nobody means that.
        return NotCanonical(
            code="path.uri",
            message="the path is a URI of another scheme, send a path or a `file:` URI",
            understood=False,
        )
    if begins_like_windows(text):
        return _WINDOWS
    absolute = _absolute(text, base)
    if isinstance(absolute, NotCanonical):
        return absolute
    return _normal_form(absolute, base.volume)


def case_key(path: str, volume: Volume) -> str:
    """What names one file on a volume that folds case: `/W/A` and `/w/a` have one key."""
    if volume.normalization != "nfc":
        return path.casefold()
    # Composing can bring back what folds again, so this is repeated until nothing changes.
    folded = nfc(path.casefold())
    while folded != (again := nfc(folded.casefold())):
        folded = again
    return folded


def directory_chain(path: str, shared: SharedFolders | None = None) -> tuple[Entity, ...]:
    """`path` as a `Directory`, and every directory above it, the root last."""
    if path == "/":
        return _ROOT
    parent = path[: path.rindex("/")] or "/"
    # Many files share a folder, so it is the folder's chain that is worth remembering.
    if len(parent) <= _CACHED_PATH_CHARACTERS and parent.count("/") <= _CACHED_DEPTH:
        parents = _known_chain(parent)
    else:
        parents = _build_chain(parent, shared)
    return (Entity(type="Directory", id=path), *parents)


def canonical_directory(text: str, volume: Volume = _POSIX) -> str | NotCanonical:
    """The id of the `File` or `Directory` that an absolute spelling in a policy means."""
    spelled = lexical_path(text, Base(volume=volume))
    if isinstance(spelled, NotCanonical) or volume.case_sensitive:
        return spelled
    return case_key(spelled, volume)


def _build_chain(path: str, shared: SharedFolders | None = None) -> tuple[Entity, ...]:
    chain = []
    while len(path) > 1:
        if len(path) <= _CACHED_PATH_CHARACTERS:
            folder = _known_directory(path)
        elif shared is None:
            folder = _directory(path)
        else:
            folder = shared.entities.get(path) or shared.entities.setdefault(path, _directory(path))
        chain.append(folder)
        path = path[: path.rindex("/")]
    return (*chain, *_ROOT)


def _directory(path: str) -> Entity:
    return Entity(type="Directory", id=path)


_ROOT = (_directory("/"),)
_known_chain = lru_cache(maxsize=1024)(_build_chain)
# A folder that is new mostly lies in folders that are not.
_known_directory = lru_cache(maxsize=1024)(_directory)


def _path_of_file_uri(uri: str) -> str | NotCanonical:
    """The path in a `file:` URI (RFC 8089), percent-decoded exactly once.

    Another authority is another machine. A query or fragment has no meaning here, and readers
    disagree on whether `?` belongs to the name.
    """
    found = _FILE_URI_PARTS.fullmatch(uri)
    if found is None or "?" in uri or "#" in uri or _BAD_ESCAPE.search(uri):
        if "\\" in uri:
            return _WINDOWS
        return NotCanonical(
            code="path.file_uri",
            message="write `file:///` and an absolute path, without host, query or fragment",
        )
    if "%2f" in uri.lower():
        return NotCanonical(
            code="path.encoded_separator",
            message="the `file:` URI holds an encoded `/`, which no file name can hold",
        )
    try:
        path = unquote_to_bytes(found[1]).decode("utf-8")
    except UnicodeDecodeError:
        return NotCanonical(code="path.encoding", message="the `file:` URI does not decode to UTF-8")
    if refused := check_characters("path", path):
        return refused
    # Readers of URIs take `c|` for a drive as it stands there, not when it is encoded.
    return _WINDOWS if _URI_DRIVE.match(found[1]) else path


def _absolute(text: str, base: Base) -> str | NotCanonical:
    """`text` joined to what it is relative to; `~` is resolved or refused, never a plain name in front."""
    if text.startswith("/"):
        return text
    if text.startswith("~"):
        if text != "~" and not text.startswith("~/"):
            return NotCanonical(
                code="path.home_of_user",
                message="`~name` depends on the machine, send an absolute path (or `./~name` for a file)",
            )
        if not base.home or not base.home.startswith("/"):
            return NotCanonical(
                code="path.home_unknown",
                message="`~` needs a declared home directory, send an absolute path",
            )
        return _joined(base.home, text[1:])
    if not base.cwd or not base.cwd.startswith("/"):
        return _NO_DIRECTORY
    return _joined(base.cwd, text)


def _joined(directory: str, text: str) -> str | NotCanonical:
    if refused := check_characters("path", directory):
        return refused
    if begins_like_windows(directory):
        return _WINDOWS
    # `a/../c:x` names drive C on Windows, although it does not begin with it.
    if ":" in text and _LEADING_DRIVE.match("/".join(_resolved(text))):
        return _WINDOWS
    return f"{directory}/{text}"


def _resolved(path: str) -> list[str]:
    """The components of `path` without `.` and empty ones, each `..` taking the one before it.

    Never above the root (POSIX: `/..` is `/`). A leading `//` is the root too: POSIX leaves it to
    the system, and Linux and macOS say so.
    """
    components: list[str] = []
    for component in path.split("/"):
        if component == "..":
            if components:
                components.pop()
        elif component and component != ".":
            components.append(component)
    return components


def _normal_form(path: str, volume: Volume) -> str | NotCanonical:
    components = _resolved(nfc(path) if volume.normalization == "nfc" else path)
    normal = "/" + "/".join(components)
    if is_windows_spelling(normal, folds_case=not volume.case_sensitive):
        return _WINDOWS  # resolving or composing can bring a name into being
    if not volume.case_sensitive and _has_ambiguous_name(components):
        return _AMBIGUOUS_NAME
    if _PROCESS_ALIAS.match(normal if volume.case_sensitive else case_key(normal, volume)):
        return _ALIAS
    if len(normal.encode()) > MAX_PATH_BYTES or len(components) > MAX_DEPTH:
        return NotCanonical(
            code="path.too_long", message=f"the path is over {MAX_PATH_BYTES} bytes or too deep"
        )
    if len(normal) * 4 > MAX_COMPONENT_BYTES and any(
        len(c.encode()) > MAX_COMPONENT_BYTES for c in components
    ):
        return NotCanonical(
            code="path.component_too_long",
            message=f"a component of the path is over {MAX_COMPONENT_BYTES} bytes",
        )
    return normal


def _has_ambiguous_name(components: list[str]) -> bool:
    """Whether a volume that folds case may know a component by a shorter name.

    Such volumes fold more than case: NTFS and SMB drop dots and spaces at the end, HFS+ and casefolded
    ext4 leave out ignorable characters, and SMB stands private ones for those that Windows forbids.
    """
    return any(name[-1:] in {".", " "} or has_invisible(name) for name in components)
