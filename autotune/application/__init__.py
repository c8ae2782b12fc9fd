"""The MPI calls of an application, and the time that tuning can save in its runs.

This package implements ``record``, ``diagnose``, ``run``, ``report --worth``, ``verify --app`` and
``conf=application``.
"""
