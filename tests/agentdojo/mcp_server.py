"""A real MCP server over stdio that advertises the tools of one suite, for imports:

    authz tools import --server slack --into slack.yaml -- python -m tests.agentdojo.mcp_server slack

It lists and executes nothing.
"""

import sys
from typing import Any, Final

import anyio
import mcp_types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from tests.agentdojo.catalogue import advertised_entries

PAGE: Final = 10


async def serve(suite: str) -> None:
    """Answer `tools/list` in pages until the input ends."""
    entries = advertised_entries(suite)

    async def list_tools(_: Any, params: Any) -> mcp_types.ListToolsResult:
        begin = int(params.cursor) if params is not None and params.cursor else 0
        more = str(begin + PAGE) if begin + PAGE < len(entries) else None
        return mcp_types.ListToolsResult.model_validate(
            {"tools": entries[begin : begin + PAGE], "nextCursor": more}
        )

    server: Server[Any] = Server(f"agentdojo-{suite}", on_list_tools=list_tools)
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1])
