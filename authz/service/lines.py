"""Long shell lines of a call, read where they hold up no other call."""

from authz.core.lines import Lines, long_lines
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.caller import Profile
from authz.ports import LineReader


async def read_lines(reader: LineReader | None, call: Call, ruleset: Ruleset, profile: Profile) -> Lines:
    """What the long lines of a call come to, as a fact of its decision; nothing without a reader."""
    tool = ruleset.tools.get((call.server, call.tool))
    if reader is None or tool is None:
        return {}
    found = long_lines(call, tool.descriptor, profile)
    return {line: await reader.read(line) for line in dict.fromkeys(found)}
