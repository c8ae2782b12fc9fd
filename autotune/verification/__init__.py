"""Baseline against recommendation on fresh launches: the paired test and its rounds (step 11)."""
