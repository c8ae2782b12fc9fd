"""Recorded tables in place of a cluster, and proposers against each other on them."""
