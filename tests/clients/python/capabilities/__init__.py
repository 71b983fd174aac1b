"""Tests of the token profile."""
