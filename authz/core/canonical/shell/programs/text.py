"""Programs that read files and print: text, tables, checksums."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from authz.core.canonical.shell.conditions import check_tested
from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import OptionSpec, parse_options, spec
from authz.core.canonical.shell.programs.describe import Description, at_most, files, named, reads
from authz.core.canonical.shell.run import Run, known_text, may_begin_with, positional
from authz.core.canonical.shell.words import Word

_HELP = "help version"


def _sort(run: Run) -> None:
    """`sort`: `-o` writes, `--compress-program` runs a program."""
    known = spec(
        "bdfgiMhnRrVcCmsuz0",
        "kotST",
        "reverse unique numeric-sort output= key= field-separator= stable check? ignore-case "
        f"buffer-size= {_HELP}",
    )
    found = parse_options(run.arguments, known)
    run.program("sort")
    run.read(*files(found))
    run.write(*found.values("o", "output"))
    run.write(*found.values("T"), tree=True)


def _uniq(run: Run) -> None:
    """`uniq IN OUT`."""
    found = parse_options(run.arguments, spec("cdDiuz", "fsw", f"count repeated unique ignore-case {_HELP}"))
    run.program("uniq")
    at_most(found.operands, 2)
    if any(word.is_glob for word in found.operands):
        raise Unreduced("pattern_as_output")  # the second name that matches is written
    run.read(*(word for word in found.operands[:1] if word.text != "-"))
    run.write(*found.operands[1:])


_CHECKSUM: Final = f"binary text check tag quiet status strict {_HELP}"
_CHECKSUMS: Final = spec("btcwz", "", _CHECKSUM, harmful="c/check")
# Its `-l` takes a number, and many a name ends in one: `-cl8` is a check.
_B2SUM: Final = spec("btcwz", "l", f"{_CHECKSUM} length=", harmful="c/check")


def _checksum(run: Run, known: OptionSpec = _CHECKSUMS) -> None:
    """`sha256sum`: with `-c` it reads whatever its file names."""
    found = parse_options(run.arguments, known)
    if found.has("c", "check"):
        raise Unreduced("named_by_file")
    run.program(known_text(run.words[0]))
    run.read(*files(found))


def _printf(run: Run) -> None:
    """`printf`: a builtin of bash, which sets a variable by `-v` and by `%n` in its format."""
    behind = 1 if run.arguments and run.arguments[0].text == "--" else 0
    [*words], _ = positional(run.arguments, behind + 1)
    if words and known_text(words[0]).startswith("-v"):
        raise Unreduced("sets_variable")
    formats = (known_text(word).replace("%%", "") for word in words)
    if any(re.search(r"%[-+ #'0-9*.hljztL]*n", text) for text in formats):
        raise Unreduced("sets_variable")
    run.program("printf")


def _test(run: Run) -> None:
    """`test`, `[`: builtins of bash, which evaluate the subscript of a variable that `-v` names.

    A word that is not known may be an operator where another does not make it an operand.
    """
    texts = [word.text for word in run.arguments]
    safe = len(texts) == 3 and texts[1] in ("=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge")
    safe |= len(texts) == 2 and re.fullmatch(r"-[a-uw-zA-QS-Z]", texts[0] or "") is not None
    if None in texts and not safe:
        raise Unreduced("test_word")
    check_tested(run.arguments)
    run.program(known_text(run.words[0]))


def _file(run: Run) -> None:
    """`file`: `-m` reads a description of types, and prints of it what it cannot read."""
    found = parse_options(
        run.arguments, spec("bhiLkprsz0", "Fm", f"brief mime mime-type mime-encoding dereference {_HELP}")
    )
    run.program("file")
    run.read(*files(found))
    for word in found.values("m"):
        run.read(*(Word(text=part) for part in known_text(word).split(":")))


def _strings(run: Run) -> None:
    """`strings`: `@FILE` is a file of options."""
    found = parse_options(run.arguments, spec("af", "net", f"all bytes= radix= {_HELP}"))
    if any(may_begin_with(word, "@") for word in run.arguments):
        raise Unreduced("options_in_file")
    run.program("strings")
    run.read(*files(found))


def _ps(run: Run) -> None:
    """`ps`: with `e` among its letters without a dash it prints the environment of processes."""
    run.program("ps")
    for word in run.arguments:
        if not known_text(word).startswith("-") and "e" in known_text(word):
            run.program("printenv")
            run.read(Word(text="/proc"), tree=True)


_HARMFUL: Final[Mapping[str, str | None]] = {
    # Files that name files, and files that say how to print: of these a pattern must not spell any option.
    **dict.fromkeys(("wc", "hexdump", "cksum")),
}
"""The others have no option that does more than say how to print what they are given."""
_PLAIN: Final[Mapping[str, tuple[str, str, str]]] = {
    # name: (flags, options with a value, long options)
    "cat": ("AbeEnstTuv", "", "number show-all squeeze-blank"),
    "tac": ("br", "s", "before regex separator="),
    "head": ("qvz0", "nc", "lines= bytes= quiet silent verbose"),
    "tail": ("fFqvz0", "ncs", "lines= bytes= follow? quiet silent verbose pid= retry sleep-interval="),
    "wc": ("cmlLw", "", "bytes chars lines words max-line-length"),
    "cut": (
        "nsz",
        "bcdf",
        "bytes= characters= delimiter= fields= complement only-delimited output-delimiter=",
    ),
    "nl": ("p", "bdfhilnsvw", "body-numbering= number-width="),
    "paste": ("sz", "d", "delimiters= serial"),
    "join": ("i", "aejotv12", "ignore-case header"),
    "comm": ("123z", "", "check-order nocheck-order output-delimiter="),
    "cmp": ("bls", "in", "print-bytes verbose silent quiet bytes="),
    "od": ("abcdfhilosxv", "AjNStw", "address-radix= format= read-bytes= skip-bytes="),
    "hexdump": ("bcCdovx", "ens", "canonical length= skip="),
    "stat": ("fLt", "c", "format= printf= dereference file-system terse"),
    "column": ("txn", "cosN", "table separator= output-separator= columns="),
    "fold": ("bs", "w", "width= spaces bytes"),
    "fmt": ("cstu", "wp", "width="),
    "expand": ("i", "t", "tabs= initial"),
    "rev": ("", "", ""),
    "base64": ("di", "w", "decode wrap= ignore-garbage"),
    "readlink": ("femnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline"),
    "realpath": (
        "emLPqsz",
        "",
        "canonicalize-existing canonicalize-missing relative-to= relative-base= strip",
    ),
    "cksum": ("", "", ""),
}
_IN_TREE: Final[Mapping[str, tuple[str, str, str]]] = {
    "du": (
        "abchHklLmsSxD0P",
        "dBt",
        "all human-readable max-depth= summarize total si apparent-size exclude=",
    ),
    "tree": ("adfilpsughDFrtNC", "LPI", "dirsfirst noreport"),
}

_DIFF: Final = spec(
    "abBcdeEiInNpqrstuwyZ",
    "CUFLWx",
    f"brief unified? context? recursive ignore-all-space color? exclude= side-by-side {_HELP}",
)

PROGRAMS: Final[Mapping[str, Description]] = {
    **{
        name: reads(name, spec(flags, values, f"{long} {_HELP}", harmful=_HARMFUL.get(name, "")))
        for name, (flags, values, long) in _PLAIN.items()
    },
    **{
        name: reads(name, spec(flags, values, f"{long} {_HELP}"), tree=True, here=True)
        for name, (flags, values, long) in _IN_TREE.items()
    },
    # Without `-r` it reads the files of a folder, though not those of its subfolders.
    "diff": reads("diff", _DIFF, tree=True),
    "sort": _sort,
    "uniq": _uniq,
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"), _checksum),
    "b2sum": partial(_checksum, known=_B2SUM),
    "printf": _printf,
    **dict.fromkeys(("test", "["), _test),
    "file": _file,
    "strings": _strings,
    "ps": _ps,
    **{
        name: named(name)
        for name in (
            *("echo", "true", "false", "tr", "seq", "yes", "sleep", "basename", "dirname", "pwd"),
            *("whoami", "id", "groups", "uname", "arch", "nproc", "uptime", "free", "tty", "which", "cal"),
            *("expr", "factor", "numfmt", "printenv", "locale", "getconf", "tput", "clear"),
        )
    },
}
