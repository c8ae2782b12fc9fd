"""Verify settings on fresh launches: the tests against the baseline and their rounds (step 11)."""
