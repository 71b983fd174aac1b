"""Use cases: gather facts, ask the core, commit. The only callers of `authz.core.decide`."""
