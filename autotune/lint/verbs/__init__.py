"""Implementation of the commands ``lint``, ``lint --explain`` and ``doctor``."""
