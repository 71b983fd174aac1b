"""Hooks of agent runtimes that need no code: a settings file names a command, and that command asks.

A hook runs once for every tool call, so what it imports counts: the flows of this package over the standard
library's http client, and nothing of `httpx`.
"""
