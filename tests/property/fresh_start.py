"""One start of the policy engine, told on standard output: run as a program, in a process of its own.

PYTHONHASHSEED=7 python -m tests.property.fresh_start
"""

import hashlib
import json
from random import Random
from typing import Any, Final

from authz.core.cases.deciding import Answered, answer
from tests.policies.deciding import sample_cases, sample_ruleset
from tests.property.policy_sets import Names, RuleMaker, random_call, random_people
from tests.property.test_policy_index import usable
from tests.support.world import decide_in, record_of

SHARE_OF_CASES: Final = 20
RULES: Final = 60
CALLS: Final = 40


def sample_answers() -> dict[str, Any]:
    """What the shipped bundle says of some of its cases."""
    ruleset = sample_ruleset()
    answers = []
    for case in sample_cases()[::SHARE_OF_CASES]:
        found = answer(case, ruleset)
        answers.append([repr(found.verdict), found.record()] if isinstance(found, Answered) else repr(found))
    return {"version": ruleset.version, "schema": ruleset.schema_text, "answers": answers}


def random_answers() -> dict[str, Any]:
    """What rules that allow, ask, forbid and err say of some calls, the same ones in every process."""
    random = Random(11)
    names = Names.for_size(RULES)
    people = random_people(random, names)
    maker = RuleMaker(random, names, rules=RULES, errors=0.05)
    ruleset = usable([maker.rule(number) for number in range(RULES)], people)
    records = []
    for _ in range(CALLS):
        made = random_call(random, names)
        records.append(record_of(ruleset, made, decide_in(ruleset, made)))
    return {"version": ruleset.version, "schema": ruleset.schema_text, "answers": records}


def told() -> dict[str, str]:
    """A digest of each part, and how often each code came out, so that a difference can be looked for."""
    parts = {"sample": sample_answers(), "random": random_answers()}
    digests = {
        f"{name}.{member}": hashlib.sha256(json.dumps(value).encode()).hexdigest()
        for name, part in parts.items()
        for member, value in part.items()
    }
    codes = sorted({record["code"] for record in parts["random"]["answers"]})
    return digests | {"codes": " ".join(codes)}


if __name__ == "__main__":
    print(json.dumps(told()))
