"""The results of `authz test` as JUnit XML, which CI systems read."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from authz.cli.test_run import Run, Timed
from authz.core.cases.judging import Judged
from authz.errors import ConfigError

# What XML 1.0 cannot hold at all, not even escaped.
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, run: Run) -> None:
    """Write the file. Raises `ConfigError` when it cannot be written."""
    root = ET.Element("testsuites", {"name": "authz test", **_counts(run.results)})
    by_file: dict[str, list[Timed]] = {}
    for timed in run.results:
        by_file.setdefault(timed.judged.case.file, []).append(timed)
    for file, results in by_file.items():
        suite = ET.SubElement(root, "testsuite", {"name": _clean(file), **_counts(results)})
        for timed in results:
            _case(suite, timed, str(run.options.folder))
    ET.indent(root)
    text = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be written: {error.strerror}") from None


def _counts(results: Sequence[Timed]) -> dict[str, str]:
    judged = [timed.judged for timed in results]
    return {
        "tests": str(len(judged)),
        "failures": str(sum(bool(found.differences) for found in judged)),
        "errors": str(sum(bool(found.error) for found in judged)),
        "time": f"{sum(timed.seconds for timed in results):.6f}",
    }


def _case(suite: ET.Element, timed: Timed, folder: str) -> None:
    judged = timed.judged
    case = judged.case
    element = ET.SubElement(
        suite,
        "testcase",
        classname=_clean(case.file.removesuffix(".yaml").replace("/", ".")),
        name=_clean(case.name),
        file=_clean(f"{folder}/{case.file}"),
        line=str(case.line),
        time=f"{timed.seconds:.6f}",
    )
    if judged.error:
        ET.SubElement(element, "error", message=_clean(judged.error), type="unusable").text = _clean(
            judged.error
        )
    elif judged.differences:
        names = ", ".join(difference.name for difference in judged.differences)
        failure = ET.SubElement(element, "failure", message=_clean(f"differs in {names}"), type="difference")
        failure.text = _clean(_differences(judged, folder))


def _differences(judged: Judged, folder: str) -> str:
    lines = [f"{folder}/{judged.case.file}:{judged.case.line}"]
    for difference in judged.differences:
        lines.append(f"{difference.name}: expected {difference.expected!r}, got {difference.got!r}")
        if difference.note:
            lines.append(f"  {difference.note}")
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _NO_XML.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
