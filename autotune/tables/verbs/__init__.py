"""Commands for tables: ``compare`` (with ``--guidelines`` and ``--winners``) and ``import``."""
