from autotune.commands.api import Campaign, diagnose, explain, lint_files, load_space, record

__all__ = ["Campaign", "__version__", "diagnose", "explain", "lint_files", "load_space", "record"]

__version__: str
