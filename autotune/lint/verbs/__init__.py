"""Verbs on files and machines: ``lint``, ``lint --explain`` and ``doctor``."""
