"""Random rules, people and calls over the tools of `tests.support.world`, from one source of randomness.

The larger a set is, the more names it spreads over: a bundle of thousands of rules is not one of ten rules
repeated. Everything comes from `random`, which can be Hypothesis's or a seeded one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from authz.model.call import Call
from tests.property import literals
from tests.support.world import call, source

ERROR = "9223372036854775807 + context.now.toTime().toMilliseconds() > 0"
"""Passes validation, and errs on every evaluation."""
READS = [
    'action in Action::"read"',
    'action in Action::"fs/file_read"',
    'action == Action::"fs/file_read:read:A0"',
]
WRITES = [
    'action in Action::"write"',
    'action in Action::"fs/file_edit"',
    'action == Action::"fs/file_edit:write:A1"',
]
WRITES += [
    'action in [Action::"write", Action::"delete"]',
    'action in [Action::"fs/file_edit", Action::"A1"]',
]
WIDE = [
    "action",
    'action in [Action::"read", Action::"write", Action::"connect", Action::"transact"]',
    "action",
]
WIDE += [
    'action in [Action::"A0", Action::"A3"]',
    'action in [Action::"A0", Action::"A1", Action::"A2", Action::"A3"]',
]


@dataclass(frozen=True)
class Names:
    """What rules, people and calls name."""

    groups: Sequence[str]
    users: Sequence[str]
    agents: Sequence[str]
    folders: Sequence[str]
    domains: Sequence[str]
    accounts: Sequence[str]

    @classmethod
    def for_size(cls, rules: int) -> "Names":
        few, many = max(3, min(40, rules // 10)), max(3, min(400, rules // 8))
        top = [f"/workspace/p{n}" for n in range(max(2, many // 8))]
        folders = ["/", "/workspace", "/etc", *top]
        folders += [f"{top[n % len(top)]}/d{n}" for n in range(many)]
        return cls(
            groups=[f"g{n}" for n in range(few)],
            users=[f"u{n}" for n in range(few)],
            agents=[f"a{n}" for n in range(few)],
            folders=folders,
            domains=["example.com", *(f"s{n}.example.com" for n in range(few))],
            accounts=[f"acct-{n}" for n in range(few)],
        )


@dataclass(frozen=True)
class People:
    """Who is in which groups, and their tags."""

    groups: dict[str, list[str]]
    users: dict[str, tuple[list[str], dict[str, str]]]
    agents: dict[str, tuple[list[str], dict[str, str]]]

    @property
    def yaml(self) -> str:
        """As `entities.yaml`."""
        people = {
            kind: {name: {"groups": groups, "tags": tags} for name, (groups, tags) in entries.items()}
            for kind, entries in (("users", self.users), ("agents", self.agents))
        }
        return json.dumps(people | {"groups": {name: {"groups": of} for name, of in self.groups.items()}})


def random_people(random: Random, names: Names) -> People:
    """Groups that nest, and members with tags. A group is only ever in an earlier one."""

    def some(pool: Sequence[str], most: int) -> list[str]:
        return sorted({random.choice(pool) for _ in range(random.randint(0, most))}) if pool else []

    def members(pool: Sequence[str]) -> dict[str, tuple[list[str], dict[str, str]]]:
        # Some that rules and calls name are not declared.
        declared = [name for name in pool if random.random() < 0.85]
        return {
            name: (some(names.groups, 2), {"t": random.choice("xy")} if random.random() < 0.5 else {})
            for name in declared
        }

    return People(
        groups={name: some(names.groups[:index], 2) for index, name in enumerate(names.groups)},
        users=members(names.users),
        agents=members(names.agents),
    )


class RuleMaker:
    """Makes rules over some names."""

    def __init__(self, random: Random, names: Names, *, rules: int, errors: float) -> None:
        """`errors`: how likely a condition is one that errs.

        Some thirty of the `rules` may be about everybody and everything, however many there are: where
        hundreds are, one of them forbids, and nothing else is ever seen.
        """
        self._random = random
        self._names = names
        self._wide = 30 / rules
        self._errors = errors

    def rule(self, number: int) -> str:
        """One rule on one line."""
        random = self._random
        kind = random.choices(["permit", "forbid", '@requires("approval") forbid'], [6, 3, 2])[0]
        mark, effect = kind.rsplit(" ", 1) if " " in kind else ("", kind)
        wide = random.random() < self._wide
        action, resource = self._action_and_resource(wide=wide)
        clauses = "".join(
            f" {random.choice(['when', 'unless'])} {{ {self._condition(2)} }}"
            for _ in range(random.choice([0, 0, 1, 1, 2]))
        )
        if random.random() < 0.3:
            clauses = f" when {{ {self._leading()} && {self._condition(1)} }}" + clauses
        return (
            f'@id("r{number}") {mark} {effect} ({self._principal(wide=wide)}, {action}, {resource}){clauses};'
        )

    def _leading(self) -> str:
        """What a condition often begins with: it says what a scope could."""
        return self._random.choice(
            [
                f"resource is File && resource in {self._folder()}",
                f"resource is File in {self._folder()}",
                f"resource in [{self._folder()}, {self._folder()}]",
                f"resource == {self._file()}",
                f"principal in {self._group()} && resource in {self._folder()}",
                f"principal == {self._agent()}",
                'action in Action::"read" && resource is File',
                'action in [Action::"read", Action::"A3"]',
                'action == Action::"fs/file_read:read:A0" && principal is Agent',
            ]
        )

    def _principal(self, *, wide: bool) -> str:
        agent, group = self._agent(), self._group()
        some = [f"principal in {group}", f"principal == {agent}", f"principal is Agent in {group}"]
        return self._random.choice([*some, "principal", "principal is Agent"] if wide else some)

    def _action_and_resource(self, *, wide: bool) -> tuple[str, str]:
        """A scope that some action and resource fit."""
        random = self._random
        if not wide:
            narrow = [
                self._in_folder(),
                f"resource is File in {self._folder()}",
                f"resource == {self._file()}",
            ]
            pairs = [
                (READS, narrow),
                (WRITES, narrow),
                (['action in Action::"connect"', "action"], [f"resource in {self._domain()}"]),
                (['action in Action::"transact"', WIDE[1]], [f"resource == {self._account()}"]),
                (["action", WIDE[1]], [self._anywhere(), self._anywhere()]),
            ]
            actions, resources = random.choice(pairs)
            return random.choice(actions), random.choice(resources)
        files = ["resource is File", self._in_folder(), self._in_folder(), self._in_folder()]
        files += [
            f"resource is File in {self._folder()}",
            f"resource == {self._file()}",
            "resource is Opaque",
        ]
        sites = [f"resource in {self._domain()}", f"resource is Endpoint in {self._domain()}"]
        accounts = [
            f"resource == {self._account()}",
            'resource in ObjectType::"account"',
            "resource is Object",
        ]
        anything = [*files, *sites, *accounts, "resource", "resource"]
        pairs = [
            (READS, [*files, "resource"]),
            (WRITES, [*files, "resource"]),
            (['action in Action::"connect"', 'action in Action::"web/fetch"'], [*sites, "resource"]),
            (['action in Action::"transact"'], [*accounts, "resource"]),
            (WIDE, [*anything, self._anywhere()]),
        ]
        actions, resources = random.choice(pairs)
        action = random.choice(actions)
        if '"A1"' in action and "fs/" in action:
            resources = files
        return action, random.choice(resources)

    def _condition(self, depth: int) -> str:
        random = self._random
        if depth and random.random() < 0.5:
            one, two = self._condition(depth - 1), self._condition(depth - 1)
            return random.choice(
                [
                    f"({one} && {two})",
                    f"({one} || {two})",
                    f"!({one})",
                    f"(if {one} then {two} else {self._condition(0)})",
                ]
            )
        if random.random() < self._errors:
            return random.choice([f"({ERROR})", f'(context.role == "target" && {ERROR})'])
        if random.random() < 0.2:
            return f"({literals.random_condition(random)})"
        return f"({random.choice(self._atoms())})"

    def _atoms(self) -> list[str]:
        agent, group, other, user = self._agent(), self._group(), self._group(), self._user()
        folder, file = self._folder(), self._file()
        return [
            "true",
            f"principal in {group}",
            f"principal in [{group}, {other}]",
            f"principal == {agent}",
            f"principal.on_behalf_of in {group}",
            f"principal.on_behalf_of in {group}",
            f"principal.on_behalf_of == {user}",
            'principal.on_behalf_of.hasTag("t") && principal.on_behalf_of.getTag("t") == "x"',
            'principal.hasTag("t") && principal.getTag("t") == "y"',
            f"{user} in {group}",
            f"{group} in {other}",
            f"{agent} in {group}",
            f"{agent}.on_behalf_of in {group}",
            f'{user}.hasTag("t") && {user}.getTag("t") == "x"',
            f"[{group}, {other}].contains({self._group()})",
            f"resource in {folder}",
            f"resource in [{folder}, {self._folder()}]",
            f"{folder} in {self._folder()}",
            f"{file} in {folder}",
            f"resource is File in {folder}",
            'resource is File && resource.name like "f*"',
            f'resource is Endpoint && resource.scheme == "https" && resource in {self._domain()}',
            'resource is Object && resource.type == "account"',
            f"resource == {file}",
            'action in Action::"write"',
            'action == Action::"fs/file_read:read:A0"',
            'context.role == "target"',
            'context.untrusted.contains("target")',
            'context.sources.target.contains("web")',
            "context.session == context.session",
            'context.session.exposed.contains("secret")',
            "context.capability has depth && context.capability.depth > 1",
            "context has capability.depth",
            'context.tool == Tool::"fs/file_read"',
            'context.tool.name == "file_edit"',
            'Tool::"fs/file_read".server == "fs"',
            'context.now < datetime("2027-01-01T00:00:00Z")',
        ]

    def _agent(self) -> str:
        return f'Agent::"{self._random.choice(self._names.agents)}"'

    def _group(self) -> str:
        return f'Group::"{self._random.choice(self._names.groups)}"'

    def _user(self) -> str:
        return f'User::"{self._random.choice(self._names.users)}"'

    def _folder(self) -> str:
        return f'Directory::"{self._random.choice(self._names.folders)}"'

    def _in_folder(self) -> str:
        return f"resource in {self._folder()}"

    def _file(self) -> str:
        return f'File::"{random_path(self._random, self._names)}"'

    def _domain(self) -> str:
        return f'Domain::"{self._random.choice(self._names.domains)}"'

    def _anywhere(self) -> str:
        """A scope over what a literal of any type is, or holds."""
        kind, name = self._random.choice(list(literals.pairs()))
        place = literals.cedar(kind, name)
        return self._random.choice([f"resource in {place}", f"resource == {place}"])

    def _account(self) -> str:
        return f'Object::"account:{self._random.choice(self._names.accounts)}"'


def random_path(random: Random, names: Names) -> str:
    """A folder, or a file in one."""
    folder = random.choice(names.folders)
    return folder if random.random() < 0.3 else f"{folder.rstrip('/')}/f{random.randint(0, 2)}"


def random_call(random: Random, names: Names) -> Call:
    """One call, by somebody, of some tool, on something."""
    who: dict[str, Any] = {
        "agent": random.choice([*names.agents, "nobody"]),
        "user": random.choice([*names.users, "nobody", None]),
        "session": random.choice(["s-1", None]),
    }
    path = random_path(random, names)
    provenance = {"": source(random.choice(["user", "web", "secret"]))}
    match random.randint(0, 10):
        case 0 | 1:
            return call("fs/file_read", path=path, provenance=provenance, **who)
        case 2:
            return call("fs/file_edit", path=path, text="x", append=True, provenance=provenance, **who)
        case 3:
            return call("fs/file_copy", {"from": path, "to": random_path(random, names)}, **who)
        case 4:
            return call("fs/file_read", path="relative", cwd=None, **who)
        case 5:
            url = f"https://{random.choice(names.domains)}/a"
            return call("web/fetch", url=url, provenance=provenance, **who)
        case 6:
            command = random.choice(literals.COMMANDS)
            return call("shell/run", command=command, provenance=provenance, **who)
        case 7:
            return call("db/execute", sql=random.choice(literals.STATEMENTS), digest=None, **who)
        case 8:
            tool = random.choice(["git/pull", "git/push"])
            return call(tool, remote=random.choice(literals.REMOTES), **who)
        case 9:
            return call("bank/mail_send", to=random.choice(literals.LITERALS["Mailbox"]), body="x", **who)
        case _:
            return call("bank/transfer", to=random.choice(names.accounts), amount=5, **who)
