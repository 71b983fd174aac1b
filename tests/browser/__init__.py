"""A real browser over the real service."""
