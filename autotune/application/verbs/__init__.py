"""Commands for applications: ``record``, ``run``, ``diagnose``, ``report --worth``, ``verify --app``."""
