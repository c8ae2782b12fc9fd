"""Nightly regression checks: whether saved tuned settings are still in effect and as fast as when saved."""
