"""The SQL of proofs, links and revocations, for every dialect (see `authz.store.statements`)."""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Dialect, bindparam, case, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from authz.store.sql_parts import NO_OFFSET, Build, is_listed
from authz.store.tables import CAPABILITY_LINKS, PROOF_USES, REVOCATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityStatements:
    """SQL texts with positional parameters, in the order that each docstring gives."""

    select_used: str
    """JSON array of keys -> those of them that were used."""
    insert_proof: str
    """key, until_ms; nothing happens when the key exists."""
    select_old_proofs: str
    """after which key, at most so many -> key, until_ms."""
    delete_proof: str
    """key."""
    insert_link: str
    """All columns of `capability_links`, in table order; nothing happens when it is there."""
    select_last_revocation: str
    """-> the highest sequence; NULL when there is none."""
    put_revocation: str
    """All columns of `revocations`, in table order. One that is there keeps the later `until_ms`.

    It gets the new sequence; who revoked it first, when and why stays.
    """
    select_old_revocations: str
    """after which sequence, at most so many -> sequence, until_ms."""
    delete_revocation: str
    """sequence."""


def compile_capability_statements(dialect: Dialect, build: Build) -> CapabilityStatements:
    """The statements in `dialect`, which must be SQLite's or PostgreSQL's."""
    insert_new = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
    proofs, revocations = PROOF_USES.c, REVOCATIONS.c
    most = bindparam("most", type_=BigInteger)
    old_proofs = (
        select(proofs.key, proofs.until_ms)
        .where(proofs.key > bindparam("after_key"))
        .order_by(proofs.key)
        .limit(most)
        .offset(NO_OFFSET)
    )
    revoke = insert_new(REVOCATIONS)
    later = case(
        (revocations.until_ms > revoke.excluded.until_ms, revocations.until_ms),
        else_=revoke.excluded.until_ms,
    )
    put = revoke.on_conflict_do_update(
        index_elements=["tenant", "kind", "value"],
        set_={"until_ms": later, "sequence": revoke.excluded.sequence},
    )
    old_revocations = (
        select(revocations.sequence, revocations.until_ms)
        .where(revocations.sequence > bindparam("after_sequence"))
        .order_by(revocations.sequence)
        .limit(most)
        .offset(NO_OFFSET)
    )
    delete_proof = delete(PROOF_USES).where(proofs.key == bindparam("at_key"))
    delete_revocation = delete(REVOCATIONS).where(revocations.sequence == bindparam("at_sequence"))
    return CapabilityStatements(
        select_used=build(select(proofs.key).where(is_listed(proofs.key, dialect)), "keys"),
        insert_proof=build(insert_new(PROOF_USES).on_conflict_do_nothing(), *PROOF_USES.columns.keys()),
        select_old_proofs=build(old_proofs, "after_key", "most"),
        delete_proof=build(delete_proof, "at_key"),
        insert_link=build(
            insert_new(CAPABILITY_LINKS).on_conflict_do_nothing(), *CAPABILITY_LINKS.columns.keys()
        ),
        select_last_revocation=build(select(func.max(revocations.sequence))),
        put_revocation=build(put, *REVOCATIONS.columns.keys()),
        select_old_revocations=build(old_revocations, "after_sequence", "most"),
        delete_revocation=build(delete_revocation, "at_sequence"),
    )
