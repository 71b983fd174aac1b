"""Programs that speak to other machines."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from authz.core.canonical.host import canonicalize_host
from authz.core.canonical.path import canonicalize_path
from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import Parsed, parse_options, spec
from authz.core.canonical.shell.programs.describe import Description, at_most, may_be_remote
from authz.core.canonical.shell.run import Run, known_text, pattern_text
from authz.core.canonical.shell.words import Word
from authz.model.resource import Base, NotCanonical, Verb

_CURL: Final = spec(
    "sSfLiIkvgGOJ46#Nqa0",
    "odHXAebucTmrxUFKEw",
    "silent show-error fail fail-with-body location include head insecure verbose globoff get remote-name "
    "remote-header-name compressed ipv4 ipv6 progress-bar no-buffer output= data= data-raw= data-binary= "
    "data-urlencode= json= header= request= user-agent= referer= user= cookie= cookie-jar= upload-file= "
    "max-time= connect-timeout= range= form= write-out= retry= retry-delay= retry-max-time= max-redirs= url= "
    "create-dirs http1.1 http2 tlsv1.2 no-progress-meter help version",
)
_CURL_DATA: Final = ("d", "data", "data-binary", "data-urlencode", "data-raw", "json", "F", "form")
_HAS_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCHEME_OF_SORTS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d+(?:[/?#]|$))")
_GUESSED_SCHEME: Final = re.compile(r"(?:ftps?|dict|ldaps?|imap|smtp|pop3)\.", re.IGNORECASE)
# What every reader of urls takes for the same place. Not every one is WHATWG's, which the rules go by.
_READ_ALIKE: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?(?:[/?#][^\\\s]*)?"
)


def _curl(run: Run) -> None:
    """`curl`: connects to and reads every url; with data it sends; `-o` writes. Config files are unknown."""
    found = parse_options(run.arguments, _CURL)
    if found.has("K", "config", "x", "E") or _names_file_of_options(found):
        raise Unreduced("unknown_option")
    urls = [*found.operands, *found.values("url")]
    if not urls:
        raise Unreduced("operands")
    run.program("curl")
    methods = {known_text(word).upper() for word in found.values("X", "request")}
    # With `-G` the data goes out in the url, which is sending it all the same.
    sends = found.has(*_CURL_DATA, "T", "upload-file")
    sends |= bool(methods - {"GET", "HEAD"})
    # Redirects lead where nobody knows, and each would be a decision of its own.
    if found.has("L", "location"):
        run.opaque("redirects")
    for word in urls:
        _request(run, word, sends=sends)
    _curl_files(run, found, urls)


def _names_file_of_options(found: Parsed) -> bool:
    formats = [known_text(word) for word in found.values("w", "write-out")]
    named = [known_text(word) for word in found.values("H", "header")] + formats
    # `%output{FILE}` writes one.
    return any(text.startswith("@") for text in named) or any("%output" in text for text in formats)


def _last_part(url: str) -> str:
    """What a url's path ends with, as `-O` names the file; empty where that is not plain to see."""
    path = url.partition("://")[2] if _HAS_SCHEME.match(url) else url
    name = path.partition("/")[2].rpartition("/")[2]
    return name if re.fullmatch(r"(?!\.\.?$)[A-Za-z0-9_.+-]+", name) else ""


def _downloaded(run: Run, folder: str, name: str) -> None:
    """A file of that name in the folder, or where the name is not known, of any."""
    if name:
        run.write(Word(text=f"{folder}/{name}"))
        return
    for names in ("*", ".*"):
        run.matching(Verb.WRITE, folder, (names,))


def _curl_files(run: Run, found: Parsed, urls: Sequence[Word]) -> None:
    run.write(*(word for word in found.values("o", "output") if word.text != "-"))
    run.write(*found.values("c", "cookie-jar"))
    for word in found.values("T", "upload-file"):
        if re.search(r"[\[\]{}]", known_text(word)):
            raise Unreduced("url_pattern")  # several files
        run.read(word)
    if found.has("O", "remote-name"):
        for word in urls:
            # With `-J` the server may say what it is called.
            name = "" if found.has("J", "remote-header-name") else _last_part(known_text(word))
            _downloaded(run, ".", name)
    for word in found.values("b", "cookie"):
        if "=" not in known_text(word):
            run.read(word)
    for word in found.values("d", "data", "data-binary", "json"):
        if known_text(word).startswith("@"):
            run.read(Word(text=known_text(word)[1:]))
    for word in found.values("data-urlencode"):
        # `name=text` is text; `@file` and `name@file` are files.
        before, mark, name = known_text(word).partition("@")
        if mark and "=" not in before:
            run.read(Word(text=name))
    for word in found.values("F", "form"):
        _form(run, known_text(word).partition("=")[2])


def _form(run: Run, content: str) -> None:
    """`-F name=content`: `@FILE,FILE;type=…`, `<FILE`, or a text."""
    if content[:1] in "@<" and content:
        name, _, rest = content[1:].partition(";")
        if re.search(r"[\",\\]", name) or re.search(r"[@<]", rest):
            raise Unreduced("form")
        run.read(Word(text=name))
    elif re.search(r"=[@<]|^\(", content):
        raise Unreduced("form")


def _request(run: Run, word: Word, *, sends: bool) -> None:
    text = known_text(word)
    if not _HAS_SCHEME.match(text) and (_SCHEME_OF_SORTS.match(text) or _GUESSED_SCHEME.match(text)):
        raise Unreduced("url_scheme")  # `file:/etc/passwd`, and what a name is taken to mean
    url = text if _HAS_SCHEME.match(text) else f"http://{text}"
    if url[:7].lower() == "file://":
        found = canonicalize_path(url, Base())
        run.effects.resource(Verb.READ, found if isinstance(found, NotCanonical) else found[0], url)
        return
    if not _READ_ALIKE.fullmatch(url):
        run.opaque("url_spelling")
    if re.search(r"[\[\]{}*]", url.partition("://")[2].partition("/")[2]):
        run.opaque("url_pattern")  # curl's own patterns name several
    for verb in (Verb.CONNECT, Verb.SEND if sends else Verb.READ):
        run.effects.url(verb, url, guessed=run.guessed)


_WGET: Final = spec(
    "qvbcNSnd46",
    "OPUTtew",
    "quiet verbose no-verbose continue timestamping output-document= directory-prefix= user-agent= "
    "timeout= tries= "
    "header= post-data= post-file= method= body-data= body-file= no-check-certificate spider max-redirect= "
    "show-progress help version",
)


def _wget(run: Run) -> None:
    """`wget`: follows redirects unless told not to, and writes into the directory in force."""
    found = parse_options(run.arguments, _WGET)
    if not found.operands or found.has("e", "b"):  # `-b` writes a log
        raise Unreduced("unknown_option")
    run.program("wget")
    sends = found.has("post-data", "post-file", "body-data", "body-file")
    sends |= any(known_text(word).upper() not in ("GET", "HEAD") for word in found.values("method"))
    if "0" not in {word.text for word in found.values("max-redirect")}:
        run.opaque("redirects")
    for word in found.operands:
        _request(run, word, sends=sends)
    run.read(*found.values("post-file", "body-file"))
    outputs = found.values("O", "output-document")
    if outputs:
        run.write(*(word for word in outputs if word.text != "-"))
    elif not found.has("spider"):
        folder = known_text((found.values("P", "directory-prefix") or (Word(text="."),))[0])
        for word in found.operands:
            name = _last_part(known_text(word))
            _downloaded(run, folder, name)
            if name:
                run.matching(Verb.WRITE, folder, (f"{name}.*",))  # where there is one already
    if run.home is not None and any("https:" in known_text(word).lower() for word in found.operands):
        run.write(Word(text=f"{run.home}/.wget-hsts"))


def _host(run: Run, verb: Verb, text: str) -> None:
    found = canonicalize_host(text)
    run.effects.resource(verb, found if isinstance(found, NotCanonical) else found[0], text)


def _remote_shell(run: Run) -> None:
    """`ssh HOST COMMAND`: what runs there is not judged here. `-o`, `-F` and tunnels are not known."""
    found = parse_options(run.arguments, spec("4681aATtqvxCNnf", "pliE", "", permutes=False))
    if not found.operands or found.has("E"):
        raise Unreduced("operands")
    run.program("ssh", changes=True)
    host = known_text(found.operands[0]).rpartition("@")[2]
    port = found.values("p")
    _host(run, Verb.CONNECT, f"{host}:{known_text(port[0])}" if port else host)
    run.read(*found.values("i"))
    run.opaque("remote_command")


def _remote_copy(run: Run) -> None:
    """`scp`: reads here and sends there, or the other way."""
    found = parse_options(run.arguments, spec("346BCpqrvT", "Pil", ""))
    if len(found.operands) < 2:
        raise Unreduced("operands")
    *sources, target = found.operands
    known_text(target)  # of names that match, the last is where the others go
    if any(re.match(r"\[|[^@/]*@?\[|\w+://", pattern_text(word)) for word in found.operands):
        raise Unreduced("remote")
    if any(word.is_glob and may_be_remote(word) for word in sources):
        raise Unreduced("remote")
    run.program("scp", changes=True)
    run.read(*found.values("i"))
    tree = found.has("r")
    for word in (*sources, target):
        text = pattern_text(word)
        is_target = word is target
        remote = re.fullmatch(r"(?:[^@/:]+@)?([^/:]+):.*", text)
        if remote:
            _host(run, Verb.CONNECT, remote[1])
            if is_target:
                _host(run, Verb.SEND, remote[1])
        elif is_target:
            run.write(word, tree=True)
        else:
            run.read(word, tree=tree)


def _looks_up(name: str) -> Description:
    """`ping`, `dig`, `host`: a name goes out, which can carry data."""

    def describe(run: Run) -> None:
        found = parse_options(run.arguments, spec("4nq", "cWi", ""))
        at_most(found.operands, 2)
        if not found.operands or known_text(found.operands[0]) == "-":
            raise Unreduced("named_by_input")
        run.program(name)
        for word in found.operands:
            _host(run, Verb.CONNECT, known_text(word))

    return describe


PROGRAMS: Final[Mapping[str, Description]] = {
    "curl": _curl,
    "wget": _wget,
    "ssh": _remote_shell,
    "scp": _remote_copy,
    "ping": _looks_up("ping"),
    "host": _looks_up("host"),
    "nslookup": _looks_up("nslookup"),
}
