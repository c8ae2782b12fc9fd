"""Verbs on applications: ``record``, ``run``, ``diagnose``, ``report --worth``, ``verify --app``."""
