"""Programs that read files and print: text, tables, checksums, searches."""

import re
from collections.abc import Mapping
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import parse_options, spec
from authz.core.canonical.shell.programs.describe import Description, at_most, files, named, reads
from authz.core.canonical.shell.run import Run, known_text
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
    run.read(*(word for word in found.operands[:1] if word.text != "-"))
    run.write(*found.operands[1:])


def _checksum(run: Run) -> None:
    """`sha256sum`: with `-c` it reads whatever its file names."""
    found = parse_options(
        run.arguments, spec("btcwz", "", f"binary text check tag quiet status strict {_HELP}")
    )
    if found.has("c", "check"):
        raise Unreduced("named_by_file")
    run.program(known_text(run.words[0]))
    run.read(*files(found))


def _grep(run: Run) -> None:
    """`grep`: the first operand is the pattern unless `-e` or `-f` gave one; `-r` reads trees."""
    name = known_text(run.words[0])
    known = spec(
        "abcEFGhHilLnoPqrRsTUvVwxyzZ0",
        "eABCmfdD",
        "regexp= file= ignore-case invert-match word-regexp line-regexp count color? colour? "
        "files-with-matches "
        "files-without-match max-count= only-matching quiet silent no-messages line-number with-filename "
        "no-filename recursive dereference-recursive include= exclude= exclude-dir= after-context= "
        "before-context= context= extended-regexp fixed-strings perl-regexp basic-regexp text null "
        f"binary-files= {_HELP}",
    )
    found = parse_options(run.arguments, known)
    given = found.has("e", "regexp", "f", "file")
    operands = list(found.operands if given else found.operands[1:])
    recursive = found.has("r", "R", "recursive", "dereference-recursive")
    run.program(name)
    run.read(*found.values("f", "file"))
    if recursive and not operands:
        operands = [Word(text=".")]
    run.read(*(word for word in operands if word.text != "-"), tree=recursive)


def _ripgrep(run: Run) -> None:
    """`rg`: recursive by nature. `--pre` and `--hostname-bin` run programs; a config file may too."""
    known = spec(
        "aceFhHiIlLnNoPqSsUuvwxz0p.",
        "eABCmMfgtTjdEr",
        "regexp= file= ignore-case smart-case invert-match word-regexp count files files-with-matches glob= "
        "type= type-not= hidden no-ignore max-count= max-depth= line-number no-line-number "
        "only-matching quiet "
        "fixed-strings after-context= before-context= context= color= heading no-heading json "
        "multiline pcre2 "
        f"sort= follow stats no-messages with-filename no-filename vimgrep {_HELP}",
    )
    found = parse_options(run.arguments, known)
    given = found.has("e", "regexp", "f", "file", "files")
    operands = list(found.operands if given else found.operands[1:]) or [Word(text=".")]
    run.program("rg")
    run.read(*found.values("f", "file"))
    run.read(*(word for word in operands if word.text != "-"), tree=True)


def _find(run: Run) -> None:
    """`find`: reads trees; `-delete` deletes, `-exec` runs, `-fprint` writes."""
    starts: list[Word] = []
    arguments = list(run.arguments)
    while arguments and not _is_expression(arguments[0]):
        word = arguments.pop(0)
        if word.text is None:
            raise Unreduced("dynamic_argument")
        if word.text not in ("-H", "-L", "-P"):
            starts.append(word)
    starts = starts or [Word(text=".")]
    run.program("find")
    run.read(*starts, tree=True)
    while arguments:
        _find_part(run, starts, arguments)


def _is_expression(word: Word) -> bool:
    text = word.text or ""
    return text in ("(", ")", "!", ",") or (text.startswith("-") and text not in ("-H", "-L", "-P"))


def _find_part(run: Run, starts: list[Word], arguments: list[Word]) -> None:
    """One test or action of an expression; takes it from `arguments`."""
    text = known_text(arguments.pop(0))
    if text in _FIND_ALONE:
        if text == "-delete":
            run.delete(*starts, tree=True)
    elif text in _FIND_VALUE and arguments:
        value = arguments.pop(0)
        if value.text is None:
            raise Unreduced("dynamic_argument")
        if text in ("-newer", "-anewer", "-cnewer", "-samefile"):
            run.read(value)
    elif text in ("-fprint", "-fls", "-fprint0") and arguments:
        run.write(arguments.pop(0))
    elif text in ("-exec", "-execdir", "-ok", "-okdir"):
        command: list[Word] = []
        while arguments and arguments[0].text not in (";", "+"):
            command.append(arguments.pop(0))
        if not arguments or not command:
            raise Unreduced("find_exec")
        arguments.pop(0)
        _find_exec(run, starts, command)
    else:
        raise Unreduced("unknown_option")


def _find_exec(run: Run, starts: list[Word], command: list[Word]) -> None:
    """The command of `-exec`, with anything under the starting points in place of `{}`."""
    for start in starts:
        above = Word(text=f"{known_text(start).rstrip('/') or '/'}/*", is_glob=True)
        filled = [above if word.text == "{}" else word for word in command]
        if any("{}" in (word.text or "") for word in filled):
            raise Unreduced("find_exec")
        run.runner.run_words(filled, run)


_FIND_ALONE: Final = frozenset(
    (
        "(",
        ")",
        "!",
        ",",
        "-a",
        "-and",
        "-o",
        "-or",
        "-not",
        "-depth",
        "-d",
        "-mount",
        "-xdev",
        "-empty",
        "-print",
    )
    + ("-print0", "-ls", "-prune", "-quit", "-delete", "-true", "-false", "-daystart", "-follow", "-readable")
    + ("-writable", "-executable", "-nouser", "-nogroup", "-noleaf")
)
_FIND_VALUE: Final = frozenset(
    ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-xtype")
    + ("-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-anewer", "-cnewer")
    + ("-maxdepth", "-mindepth", "-user", "-group", "-perm", "-links", "-inum", "-samefile", "-fstype")
    + ("-printf", "-newermt", "-uid", "-gid")
)


def _sed(run: Run) -> None:
    """`sed`: `-i` writes; a script may run programs (`e`) and write files (`w`): plain ones are known."""
    known = spec(
        "nErsuz", "ef", f"quiet silent expression= file= in-place? regexp-extended separate null-data {_HELP}"
    )
    arguments, in_place = _without_in_place(run)
    found = parse_options(arguments, known)
    scripts = list(found.values("e", "expression"))
    if found.has("f", "file"):
        raise Unreduced("script_file")
    operands = list(files(found))
    if not scripts:
        scripts = [operands.pop(0)] if operands else []
    for script in scripts:
        _check_sed(known_text(script))
    run.program("sed")
    run.read(*operands)
    if in_place or found.has("in-place"):
        run.write(*operands)


def _without_in_place(run: Run) -> tuple[list[Word], bool]:
    """`-i` and `-i.bak` take a value only when it is glued on. A backup lies beside the file."""
    rest: list[Word] = []
    in_place = False
    for word in run.arguments:
        found = re.fullmatch(r"-([nErsuz]*)i(\.[A-Za-z0-9]+)?", word.text or "")
        if found:
            in_place = True
            if found[1]:
                rest.append(Word(text=f"-{found[1]}"))
        else:
            rest.append(word)
    return rest, in_place


_SED_ADDRESS: Final = r"(?:\d+|\$|/[^/\\\n]*(?:\\.[^/\\\n]*)*/I?)"
_SED_PLAIN: Final = re.compile(
    rf"\s*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|[+~]\d+))?)?\s*!?\s*"
    r"(?:[pdqDPNngGhHx=]|s(?P<mark>[/|#,:@%!])(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gIip0-9]*)\s*"
)


def _check_sed(script: str) -> None:
    """A script of addresses, `s///` and commands that only print or delete lines."""
    rest = script
    while rest:
        found = _SED_PLAIN.match(rest)
        if found is None or found.end() == 0:
            raise Unreduced("sed_script")
        rest = rest[found.end() :]
        if rest and rest[0] not in ";\n":
            raise Unreduced("sed_script")
        rest = rest[1:]


def _awk(run: Run) -> None:
    """`awk`: a language with `system`, pipes and files. Known are programs that have none of them."""
    known = spec("", "Fv", "field-separator= assign=", permutes=False)
    found = parse_options(run.arguments, known)
    if not found.operands:
        raise Unreduced("operands")
    script = known_text(found.operands[0])
    if re.search(r"system|getline|close|fflush|@|[|>]|ENVIRON|extension|load", script):
        raise Unreduced("awk_script")
    run.program("awk")
    run.read(*(word for word in found.operands[1:] if "=" not in (word.text or "") and word.text != "-"))
    for word in found.operands[1:]:
        if "=" in (word.text or "") and not re.fullmatch(r"[A-Za-z_]\w*=.*", word.text or ""):
            run.read(word)


def _jq(run: Run) -> None:
    """`jq`: its programs read nothing but their input, unless modules are loaded."""
    known = spec(
        "rRcsnjaSCMe", "", f"raw-output raw-input compact-output slurp null-input sort-keys tab {_HELP}"
    )
    found = parse_options(run.arguments, known)
    if found.operands and re.search(
        r"\b(?:import|include|env|\$ENV|input_filename)\b", known_text(found.operands[0])
    ):
        raise Unreduced("jq_program")
    run.program("jq")
    run.read(*(word for word in found.operands[1:] if word.text != "-"))


def _prints(run: Run) -> None:
    """`printf`, `test`, `[`: builtins of bash, which evaluate the subscript of a variable that `-v` names."""
    for word in run.arguments:
        if word.text is not None and (word.text in ("-v", "-R") or re.search(r"\[.*[$`]", word.text)):
            raise Unreduced("arithmetic")
    run.program(known_text(run.words[0]))


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
    "strings": ("af", "net", "all bytes= radix="),
    "file": ("bhiLkprsz0", "Fm", "brief mime mime-type mime-encoding dereference"),
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
        name: reads(name, spec(flags, values, f"{long} {_HELP}"))
        for name, (flags, values, long) in _PLAIN.items()
    },
    **{
        name: reads(name, spec(flags, values, f"{long} {_HELP}"), tree=True, here=True)
        for name, (flags, values, long) in _IN_TREE.items()
    },
    "diff": reads("diff", _DIFF, tree_if=("r", "recursive")),
    "sort": _sort,
    "uniq": _uniq,
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"), _checksum
    ),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _grep),
    "rg": _ripgrep,
    "find": _find,
    "sed": _sed,
    **dict.fromkeys(("awk", "gawk", "mawk"), _awk),
    "jq": _jq,
    **dict.fromkeys(("printf", "test", "["), _prints),
    **{
        name: named(name)
        for name in (
            *("echo", "true", "false", "tr", "seq", "yes", "sleep", "basename", "dirname", "pwd"),
            *("whoami", "id", "groups", "uname", "arch", "nproc", "uptime", "free", "tty", "which", "cal"),
            *("expr", "factor", "numfmt", "ps", "printenv", "locale", "getconf", "tput", "clear"),
        )
    },
}
