"""Programs that are given a script: `sed`, `awk`, `jq`. Known are scripts that only read and print."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import parse_options, spec
from authz.core.canonical.shell.programs.describe import Description, files
from authz.core.canonical.shell.run import Run, known_text, pattern_text, positional
from authz.core.canonical.shell.words import Word

_HELP = "help version"


def _sed(run: Run) -> None:
    """`sed`: `-i` writes; a script may run programs (`e`) and write files (`w`): plain ones are known."""
    known = spec(
        "nErsuz",
        "ef",
        f"quiet silent expression= file= in-place? regexp-extended separate null-data {_HELP}",
    )
    arguments, in_place, backups = _without_in_place(run)
    found = parse_options(arguments, known)
    scripts = list(found.values("e", "expression"))
    if found.has("f", "file"):
        raise Unreduced("script_file")
    operands = list(files(found))
    if not scripts:
        scripts, operands = (list(part) for part in positional(operands, 1))
    for script in scripts:
        _check_sed(known_text(script))
    backups += [known_text(word) for word in found.values("in-place")]
    if any(re.fullmatch(r"[A-Za-z0-9._~-]+", backup) is None for backup in backups):
        raise Unreduced("backup")  # `*` in it is the name of the file, and it may name a folder
    run.program("sed")
    run.read(*operands)
    if in_place or found.has("in-place"):
        run.write(*operands)
        for word in operands:
            run.write(*(replace(word, text=f"{pattern_text(word)}{backup}") for backup in backups))


def _without_in_place(run: Run) -> tuple[list[Word], bool, list[str]]:
    """`-i` and `-i.bak` take a value only when it is glued on. A backup lies beside the file."""
    backups: list[str] = []
    rest: list[Word] = []
    in_place = False
    for word in run.arguments:
        found = re.fullmatch(r"-([nErsuz]*)i(\.[A-Za-z0-9]+)?", word.text or "")
        if found:
            in_place = True
            backups += [found[2]] if found[2] else []
            if found[1]:
                rest.append(Word(text=f"-{found[1]}"))
        else:
            rest.append(word)
    return rest, in_place, backups


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
    if _AWK_REACHES.search(script):
        raise Unreduced("awk_script")
    run.program("awk")
    run.read(*(word for word in found.operands[1:] if "=" not in (word.text or "") and word.text != "-"))
    for word in found.operands[1:]:
        if "=" in (word.text or "") and not re.fullmatch(r"[A-Za-z_]\w*=.*", word.text or ""):
            run.read(word)


_AWK_REACHES: Final = re.compile(
    r"system|getline|close|fflush|@|[|>]|ENVIRON|ARGV|ARGC|PROCINFO|extension|load|bindtextdomain|dcn?gettext"
)


def _jq(run: Run) -> None:
    """`jq`: its programs read nothing but their input, unless modules are loaded."""
    known = spec(
        "rRcsnjaSCMe",
        "",
        f"raw-output raw-input compact-output slurp null-input sort-keys tab {_HELP}",
    )
    found = parse_options(run.arguments, known)
    if found.operands and _JQ_REACHES.search(known_text(found.operands[0])):
        raise Unreduced("jq_program")
    run.program("jq")
    run.read(*(word for word in found.operands[1:] if word.text != "-"))


_JQ_REACHES: Final = re.compile(r"\b(?:import|include|env|modulemeta|input_filename)\b|\$ENV|\$__prog_args")

PROGRAMS: Final[Mapping[str, Description]] = {
    "sed": _sed,
    **dict.fromkeys(("awk", "gawk", "mawk"), _awk),
    "jq": _jq,
}
