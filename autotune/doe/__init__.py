"""Designed experiments on anything: designs to carry out by hand, and models of any user's table."""
