"""Recorded tables in place of a cluster, and proposers compared on them."""
