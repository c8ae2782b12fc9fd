"""Verify settings on fresh launches (made after the search): tests against the stack's own defaults."""
