"""Verbs on tables: ``compare`` (with ``--guidelines`` and ``--winners``) and ``import``."""
