"""Calls of a batch that must not run side by side: one writes what the other touches (section 11)."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authz.core.canonical import canonicalize
from authz.core.overlap import shared_written_resources
from authz.model.decision import Access
from authz.model.resource import Authority, Base, Entity, NotCanonical, Resource, Scope, Verb


def access(verb: str, value: str, scope: str = "object", *, kind: str = "path") -> Access:
    found = canonicalize(kind, value, Base(cwd="/"), object_type="account")
    assert not isinstance(found, NotCanonical)
    return access_to(found[0], verb, scope)


def access_to(resource: Resource, verb: str, scope: str) -> Access:
    return Access(verb=Verb(verb), resource=resource, scope=Scope(scope), authority=Authority.A3, argument="")


def by_definition(calls: list[list[Access]]) -> list[list[int]]:
    """Every access against every other, as the words of the contract say it."""
    return [
        [
            other
            for other in range(len(calls))
            if other != number and any(meet(a, b) for a in calls[number] for b in calls[other])
        ]
        for number in range(len(calls))
    ]


def meet(a: Access, b: Access) -> bool:
    if a.verb in (Verb.READ, Verb.CONNECT) and b.verb in (Verb.READ, Verb.CONNECT):
        return False
    return root(a) == root(b) or holds(a, b) or holds(b, a)


def holds(tree: Access, inner: Access) -> bool:
    return tree.scope is Scope.TREE and root(tree) in [(e.type, e.id) for e in inner.resource.chain]


def root(found: Access) -> tuple[str, str]:
    chain = found.resource.chain
    entity = chain[1] if found.scope is Scope.TREE and len(chain) > 1 else chain[0]
    return entity.type, entity.id


PATHS = [("path", path) for path in ("/", "/a", "/a/b", "/a/b/c", "/a/bc", "/d")]
OTHERS = [
    ("url", "https://example.com/"),
    ("url", "https://example.com/a/b"),
    ("url", "https://www.example.com/a"),
    ("host", "example.com"),
    ("email", "ada@example.com"),
    ("id", "a"),
    ("id", "b"),
    ("anything", "/a"),
]
ACCESSES = st.builds(
    lambda place, verb, scope: access(verb, place[1], scope, kind=place[0]),
    st.sampled_from(PATHS + OTHERS),
    st.sampled_from(["read", "connect", "write", "delete", "execute"]),
    st.sampled_from(["object", "tree"]),
)


@given(st.lists(st.lists(ACCESSES, max_size=3), max_size=6))
@example([[access("delete", "/a", "tree")], [access("read", "/a/b")], [access("read", "/ab")]])
@example([[access("read", "/a", "tree")], [access("write", "/a/b")]])
def test_it_answers_what_the_definition_says(calls: list[list[Access]]) -> None:
    assert shared_written_resources(calls) == by_definition(calls)


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        (("read", "/a"), ("read", "/a"), False),
        (("read", "/a"), ("write", "/a"), True),
        (("write", "/a"), ("write", "/a"), True),
        (("write", "/a"), ("write", "/b"), False),
        (("write", "/a"), ("read", "/a/b"), False),
        (("delete", "/a", "tree"), ("read", "/a/b/c"), True),
        (("delete", "/a", "tree"), ("read", "/a"), True),
        (("delete", "/a", "tree"), ("read", "/ab"), False),
        (("delete", "/a/b", "tree"), ("read", "/a"), False),
        (("delete", "/a/b", "tree"), ("read", "/a", "tree"), True),
        (("read", "/a", "tree"), ("write", "/a/b"), True),
        (("read", "/a", "tree"), ("read", "/a", "tree"), False),
        (("delete", "/", "tree"), ("read", "/a"), True),
    ],
)
def test_two_accesses(left: Any, right: Any, shared: bool) -> None:
    expected = [[1], [0]] if shared else [[], []]
    assert shared_written_resources([[access(*left)], [access(*right)]]) == expected
    assert shared_written_resources([[access(*right)], [access(*left)]]) == expected


def test_a_call_without_accesses_shares_nothing_and_none_shares_with_itself() -> None:
    both = [access("write", "/a"), access("read", "/a")]
    assert shared_written_resources([]) == []
    assert shared_written_resources([both, [], both]) == [[2], [], [0]]


class Id(str):
    """An id that counts how often it is hashed or compared."""

    __slots__ = ()
    work = 0

    def __hash__(self) -> int:
        Id.work += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Id.work += 1
        return super().__eq__(other)


@pytest.mark.parametrize("scope", ["object", "tree"])
@pytest.mark.parametrize("apart", [True, False])
def test_the_work_grows_with_the_chains_and_not_with_pairs(scope: str, apart: bool) -> None:
    def work(accesses: int) -> int:
        calls = [
            [access_to(resource(number if apart else 0, item), "write", scope) for item in range(accesses)]
            for number in range(64)
        ]
        Id.work = 0
        shared_written_resources(calls)
        return Id.work

    def resource(call: int, item: int) -> Resource:
        path = f"/{call}/{item}"
        names = [("File", path), ("Directory", path), ("Directory", f"/{call}"), ("Directory", "/")]
        chain = tuple(Entity(type=kind, id=Id(name)) for kind, name in names)
        return Resource(kind="path", uri=f"file://{path}", value=path, chain=chain)

    entities = 64 * 4
    assert work(1) <= 10 * entities
    assert work(40) <= 10 * entities * 40
