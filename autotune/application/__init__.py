"""Calls of an application, and the time that tuning can win for it.

The companion of ``record``, ``diagnose``, ``run``, ``report --worth``, ``verify --app`` and
``conf=application``.
"""
