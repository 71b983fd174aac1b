"""One call as questions to Cedar: which entities it is handed, and what is asked of each access."""

from collections.abc import Sequence

import orjson

from authz.core.cedar_context import ContextFacts, Reads, context_values
from authz.core.cedar_schema import action_id
from authz.core.entities import join_documents, resource_document
from authz.core.policy import Question
from authz.core.ruleset import Tool
from authz.model.decision import Access


def call_entities(tool: Tool, accesses: Sequence[Access]) -> str:
    """The entities that this call adds to those of its principal, as one Cedar JSON document."""
    documents = {("Tool", tool.descriptor.qualified_name): tool.document}
    for access in accesses:
        entity = access.resource.entity
        documents[(entity.type, entity.id)] = resource_document(access.resource)
    return join_documents(documents)


def access_entities(access: Access) -> str:
    """The entity that one access adds to those of its principal and its tool, as Cedar JSON."""
    return f"[{resource_document(access.resource).decode()}]"


def question(agent: str, tool: Tool, access: Access, facts: ContextFacts) -> Question:
    """One access as a question to Cedar."""

    def context(reads: Reads) -> str:
        return orjson.dumps(context_values(facts, access, tool.encoder, reads)).decode()

    return Question(
        principal=("Agent", agent),
        action=action_id(tool.descriptor.qualified_name, access.verb, access.authority),
        resource=[(entity.type, entity.id) for entity in access.resource.chain],
        context=context,
    )
