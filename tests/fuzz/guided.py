"""Coverage-guided fuzzing of one target, in a process of its own: libFuzzer ends it by itself.

    python -m tests.fuzz.guided TARGET [--runs N | --seconds N] [--corpus FOLDER]

What is found is written to the corpus folder as `crash-…` and printed; the exit code is then not 0.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["authz"]):
    from tests.fuzz.targets import TARGETS, seeds

MAX_LENGTH = 4096


def main() -> None:
    """Fuzz until the bound is reached or something is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--runs", type=int, default=-1, help="inputs to try (default: no bound)")
    parser.add_argument("--seconds", type=int, default=0, help="time to spend (default: no bound)")
    parser.add_argument("--corpus", type=Path, help="keep what was learnt here and go on from it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = arguments.corpus or Path(folder)
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds(arguments.target)):
            (corpus / f"seed-{number}").write_bytes(seed)
        options = [
            *(sys.argv[0], str(corpus), "-seed=1", f"-max_len={MAX_LENGTH}", f"-artifact_prefix={corpus}/"),
            *(f"-runs={arguments.runs}", f"-max_total_time={arguments.seconds}", "-timeout=20"),
            # Inputs may be long from the start: short ones change nothing where bytes mean changes.
            *("-len_control=0", "-rss_limit_mb=2048", "-print_final_stats=1"),
        ]
        atheris.Setup(options, TARGETS[arguments.target])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
