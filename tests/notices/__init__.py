"""Notices: what they say, how they are signed, and that each is delivered."""
