"""Designed experiments of any kind: designs to carry out by hand, and models of any user's table."""
