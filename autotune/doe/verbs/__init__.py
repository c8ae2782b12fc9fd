"""Verbs on anybody's designs and tables: ``screen`` and ``model``."""
