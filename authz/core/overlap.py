"""Which calls of a batch touch what another of them writes (spec section 11).

A runtime that executes a batch in parallel must not run these together.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from authz.model.decision import Access
from authz.model.resource import Entity, Scope, Verb

_READING: Final = frozenset({Verb.READ, Verb.CONNECT})

_Uid = tuple[str, str]


def shared_written_resources(calls: Sequence[Sequence[Access]]) -> list[list[int]]:
    """For each call, given by its accesses, the others that touch a resource which one of the two writes.

    Two accesses meet when they have the same root, or when one reaches a tree whose root is in the chain
    of the other. Entities are looked up and accesses are never compared in pairs, so the work grows with
    the length of all chains together.
    """
    roots, trees = _Index(), _Index()
    for number, accesses in enumerate(calls):
        for access in accesses:
            root = _root(access)
            roots.add(root, number, writes=_writes(access))
            if access.scope is Scope.TREE:
                trees.add(root, number, writes=_writes(access))
    met = [0] * len(calls)
    for number, accesses in enumerate(calls):
        for access in accesses:
            met[number] |= roots.met_at(_root(access), writes=_writes(access))
            for entity in access.resource.chain if trees else ():
                met[number] |= trees.met_at(_uid(entity), writes=_writes(access))
    # A tree is found by the call that lies in it, so the call that reaches the tree is still to learn of it.
    for number, others in enumerate(tuple(met)):
        for other in _numbers(others):
            met[other] |= 1 << number
    return [[other for other in _numbers(others) if other != number] for number, others in enumerate(met)]


def _root(access: Access) -> _Uid:
    chain = access.resource.chain
    # What a tree reaches is named by the container of the same spelling, if the kind has one.
    return _uid(chain[1] if access.scope is Scope.TREE and len(chain) > 1 else chain[0])


def _uid(entity: Entity) -> _Uid:
    return entity.type, entity.id


def _writes(access: Access) -> bool:
    return access.verb not in _READING


class _Index:
    """The calls that touch an entity. A set of calls is an integer with one bit for each."""

    def __init__(self) -> None:
        self._all: dict[_Uid, int] = {}
        self._writing: dict[_Uid, int] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, uid: _Uid, call: int, *, writes: bool) -> None:
        self._all[uid] = self._all.get(uid, 0) | 1 << call
        if writes:
            self._writing[uid] = self._writing.get(uid, 0) | 1 << call

    def met_at(self, uid: _Uid, *, writes: bool) -> int:
        """The calls that an access meets at `uid`: all when it writes, else those that write."""
        return (self._all if writes else self._writing).get(uid, 0)


def _numbers(calls: int) -> Iterator[int]:
    """The members of a set of calls, in order."""
    while calls:
        lowest = calls & -calls
        yield lowest.bit_length() - 1
        calls ^= lowest
