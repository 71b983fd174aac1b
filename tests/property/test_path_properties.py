"""PA1 to PA7 and trees, at the decision: one object has one verdict, by every spelling and every tool.

What a path's canonical form is, and that it is stable and contained by component: `tests/unit`.
"""

import shlex
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from authz.core.canonical import canonical_literal, canonicalize
from authz.core.ruleset import Ruleset
from authz.model.decision import Effect, strictest
from authz.model.resource import Base, NotCanonical
from tests.cases.judged import OPAQUE, READS, WRITES
from tests.cases.served import SHELL
from tests.policies.test_bundle_properties import spellings
from tests.support.world import TEXT, call, decide_in, tool, tool_file, world

_PATH: Final = {"kind": "path"}
FS: Final = tool_file(
    "fs",
    tool("read", [{"verb": "read", **_PATH, "at": "/path"}], {"path": TEXT}),
    tool(
        "read_many", [{"verb": "read", **_PATH, "at": "/paths"}], {"paths": {"type": "array", "items": TEXT}}
    ),
    tool(
        "look",
        [{"verb": "read", **_PATH, "at": "/path", "tree_if": "/whole"}],
        {"path": TEXT, "whole": {"type": "boolean", "default": False}},
    ),
    tool("search", [{"verb": "read", **_PATH, "at": "/path", "scope": "tree"}], {"path": TEXT}),
    tool("write", [{"verb": "write", **_PATH, "at": "/path"}], {"path": TEXT}, leaves_sandbox=False),
    tool(
        "remove",
        [{"verb": "delete", **_PATH, "at": "/path", "scope": "tree"}],
        {"path": TEXT},
        leaves_sandbox=False,
    ),
    tool(
        "move",
        [
            {"verb": "read", **_PATH, "at": "/path", "scope": "tree"},
            {"verb": "delete", **_PATH, "at": "/path", "scope": "tree"},
            {"verb": "write", **_PATH, "at": "/to", "scope": "tree"},
        ],
        {"path": TEXT, "to": TEXT},
        leaves_sandbox=False,
    ),
)
PROGRAMS: Final = '@id("programs") permit (principal, action, resource is Program);'
SECRET: Final = "/workspace/src/secret"
POLICY: Final = (
    READS
    + WRITES
    + OPAQUE
    + PROGRAMS
    + f'@id("no") forbid (principal, action, resource in Directory::"{SECRET}");'
)


@cache
def ruleset(policy: str = POLICY) -> Ruleset:
    return world(policy, tools={"fs": FS, "shell": SHELL})


def effect_of(name: str, policy: str = POLICY, **arguments: Any) -> Effect:
    return decide_in(ruleset(policy), call(name, arguments)).decision.effect


def ran(line: str, policy: str = POLICY) -> Effect:
    return effect_of("shell/run", policy, command=line)


NAMES: Final = st.sampled_from(["src", "secret", "secretX", "x", "a b", "..", ".", "Secret", "é", "-rf"])
PATHS: Final = st.lists(NAMES, min_size=1, max_size=5).map("/".join)


@given(PATHS)
def test_pa1_the_verdict_is_that_of_the_components(path: str) -> None:
    parts: list[str] = ["workspace"]
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    denied = parts[:3] == ["workspace", "src", "secret"] or parts[:1] != ["workspace"]
    assert effect_of("fs/read", path=path) is (Effect.DENY if denied else Effect.ALLOW)


@given(
    st.data(),
    st.sampled_from([f"{SECRET}/key", SECRET, "/workspace/src/secretX", "/etc/passwd", "/workspace/a"]),
)
def test_pa2_every_spelling_of_an_object_has_its_verdict(data: st.DataObject, place: str) -> None:
    spelled = data.draw(spellings(place))
    for name in ("fs/read", "fs/write", "fs/search"):
        assert effect_of(name, path=spelled) is effect_of(name, path=place)


@given(st.one_of(PATHS, st.text(alphabet="ab/.~:%\\ é\u0301", min_size=1, max_size=12)))
def test_pa5_a_rule_names_what_a_request_names_or_is_refused(text: str) -> None:
    """Rules and requests go through one function: what is not canonical is refused, not never matched."""
    absolute = f"/{text}"
    found = canonicalize("path", absolute, Base())
    literal = canonical_literal("File", absolute)
    if isinstance(found, NotCanonical):
        assert isinstance(literal, NotCanonical)
    else:
        canonical = found[0].entity.id
        assert canonical_literal("File", canonical) == canonical
        if not isinstance(literal, NotCanonical):
            # Handed back is the canonical spelling; a loader takes a rule only where it is what was written.
            assert literal == canonical


@given(st.lists(PATHS, min_size=1, max_size=5))
def test_pa6_many_paths_are_as_strict_as_the_strictest(paths: list[str]) -> None:
    single = [effect_of("fs/read", path=path) for path in paths]
    assert effect_of("fs/read_many", paths=paths) is strictest(single)


READING: Final = (
    *(
        "cp -r {} /workspace/copy",
        "tar czf all.tgz {}",
        "grep -r x {}",
        "find {} -type f",
        "find {} -exec cat {{}} +",
    ),
    *(
        "rsync -a {} copy",
        "zip -r a.zip {}",
        "du -a {}",
        "ls -R {}",
        "rg x {}",
        "diff -r {} b",
        "scp -r {} host:b",
    ),
    *(
        "cat {}/*",
        "cat {}/*/*",
        'for f in {}/*; do cat "$f"; done',
        "tar cf - -C {} .",
        "cd {} && tar cf - .",
    ),
    *(
        "cd {} && grep -r x",
        "tree {}",
        "git add {}",
        "mv {} b",
        "sh -c 'cp -a {} b'",
        "(cd {} && cat */*)",
        "head {}/s*/*",
    ),
)
DELETING: Final = (
    *(
        "rm -rf {}",
        "rm --recursive {}",
        "find {} -delete",
        "find {} -exec rm {{}} \\;",
        "mv {} b",
        "rm -r {}/*",
    ),
    *(
        "cd {} && rm -rf *",
        "git rm -r {}",
        "cd {} && git clean -fdx",
        "env rm -r {}",
        "rsync -a --delete a/ {}",
    ),
)
FOLDERS: Final = ("/workspace/src", "/workspace", "src", ".", "./src/", "/workspace/x/../src")
NEIGHBOURS: Final = ("/workspace/lib", "lib", "srcX", "./src/../lib/")


ONE_DEEP: Final = ("cat {}/*", 'for f in {}/*; do cat "$f"; done')
"""These read the files that match: of a folder that matches, nothing that lies in it."""
ABOVE: Final = ("/workspace", ".")
"""Where the forbidden place is two levels below."""


@given(st.sampled_from(READING + DELETING), st.sampled_from(FOLDERS))
def test_a_folder_with_a_forbidden_place_in_it_is_not_taken_as_a_whole(form: str, folder: str) -> None:
    assume(form not in ONE_DEEP or folder not in ABOVE)
    assert ran(form.format(folder)) is Effect.DENY, form.format(folder)


@pytest.mark.parametrize("form", ONE_DEEP)
@pytest.mark.parametrize("folder", ABOVE)
def test_a_pattern_does_not_reach_what_lies_deeper_than_it(form: str, folder: str) -> None:
    assert ran(form.format(folder)) is Effect.ALLOW
    assert ran(form.format(f"{folder}/src")) is Effect.DENY
    assert ran(form.replace("/*", "/*/*").format(folder)) is Effect.DENY


@given(st.sampled_from(READING + DELETING), st.sampled_from(NEIGHBOURS))
def test_its_neighbour_is(form: str, folder: str) -> None:
    assume("scp" not in form)  # sending is not permitted at all
    assert ran(form.format(folder)) is Effect.ALLOW, form.format(folder)


@given(
    st.sampled_from(["fs/search", "fs/remove", "fs/move"]),
    st.sampled_from(FOLDERS),
    st.sampled_from(NEIGHBOURS),
)
def test_nor_by_a_tool_of_files(name: str, folder: str, neighbour: str) -> None:
    more = {"to": "/workspace/b"} if name == "fs/move" else {}
    assert effect_of(name, path=folder, **more) is Effect.DENY
    assert effect_of(name, path=neighbour, **more) is Effect.ALLOW
    if more:
        assert effect_of(name, path=neighbour, to=folder) is Effect.DENY


# Rules of every shape that a rule about files has: places, names, types, conditions on the call.
TREE_NAMES: Final = ("a", "b", "key", "env")
TREE_PATHS: Final = st.lists(st.sampled_from(TREE_NAMES), min_size=0, max_size=3).map(
    lambda parts: "/".join(("/workspace", *parts))
)
CONDITIONS: Final = st.one_of(
    st.builds('resource in Directory::"{}"'.format, TREE_PATHS),
    st.builds('resource in [Directory::"{}", Directory::"{}"]'.format, TREE_PATHS, TREE_PATHS),
    st.builds('resource == File::"{}"'.format, TREE_PATHS),
    st.builds('!(resource in Directory::"{}")'.format, TREE_PATHS),
    st.builds('(resource is File && resource.name == "{}")'.format, st.sampled_from(TREE_NAMES)),
    st.builds('(resource is File && resource.names.contains("{}"))'.format, st.sampled_from(TREE_NAMES)),
    st.builds('(resource is File && resource.extension != "{}")'.format, st.sampled_from(["env", ""])),
    st.builds('(resource is File && resource.name like "{}*")'.format, st.sampled_from(TREE_NAMES)),
    st.just("resource is File"),
    st.just("context.sandboxed"),
    st.just('context.tool.name == "look"'),
)
# None on `context.scope`: a rule that names it says itself that a tree is another matter than its files.
BOOLEAN: Final = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("(if {} then {} else {})".format, inner, inner, inner),
    ),
    max_leaves=3,
)
SCOPES: Final = st.one_of(
    st.just("resource"),
    st.builds('resource in Directory::"{}"'.format, TREE_PATHS),
    st.builds('resource == File::"{}"'.format, TREE_PATHS),
    st.just("resource is File"),
    st.builds('resource is File in Directory::"{}"'.format, TREE_PATHS),
)
ACTIONS: Final = st.sampled_from(["action", 'action in Action::"read"', 'action in Action::"fs/look"'])
KINDS: Final = st.sampled_from(["permit", "permit", "forbid", "ask"])


def _rule(number: int, kind: str, action: str, scope: str, when: str, word: str) -> str:
    asks = '@requires("approval") ' if kind == "ask" else ""
    effect = "permit" if kind == "permit" else "forbid"
    return f'@id("r{number}") {asks}{effect} (principal, {action}, {scope}) {word} {{ {when} }};'


RULES: Final = st.lists(
    st.tuples(KINDS, ACTIONS, SCOPES, BOOLEAN, st.sampled_from(["when", "when", "unless"])),
    min_size=1,
    max_size=4,
).map(lambda rules: "".join(_rule(number, *rule) for number, rule in enumerate(rules)))
BENEATH: Final = [
    "/".join(("", *parts))
    for parts in (
        *([one] for one in (*TREE_NAMES, "x.env", "keys")),
        *([one, two] for one in TREE_NAMES for two in (*TREE_NAMES, "x.env", "c")),
        *([one, two, three] for one in "ab" for two in "ab" for three in (*TREE_NAMES, "c")),
    )
]


@settings(max_examples=200)
@given(RULES, TREE_PATHS, st.lists(st.sampled_from(BENEATH), min_size=3, max_size=8, unique=True))
def test_what_is_allowed_of_a_tree_is_allowed_of_everything_beneath(
    rules: str, root: str, beneath: list[str]
) -> None:
    """Whatever the rules look at: no file beneath an allowed tree is one that alone would not be allowed."""
    policy = ruleset(rules)
    if decide_in(policy, call("fs/look", path=root, whole=True)).decision.effect is not Effect.ALLOW:
        return
    for path in beneath:
        single = decide_in(policy, call("fs/look", path=f"{root}{path}")).decision
        assert single.effect is Effect.ALLOW, (rules, root, path)


@given(st.sampled_from([f"{SECRET}/key", "/etc/passwd", "/workspace/src/secretX"]), st.data())
def test_pa7_what_no_tool_may_do_no_line_may(place: str, data: st.DataObject) -> None:
    spelled = data.draw(spellings(place).filter(lambda text: not text.startswith("file:")))
    word = shlex.quote(spelled) if not spelled.startswith("~") else spelled
    form = data.draw(
        st.sampled_from(["cat {}", "cat < {}", "cp {} /workspace/b", "sed -n p {}", "git diff -- {}"])
    )
    assert ran(form.format(word)) is effect_of("fs/read", path=place)
