from autotune.commands.api import Campaign, diagnose, load_space, record

__all__ = ["Campaign", "__version__", "diagnose", "load_space", "record"]

__version__: str
