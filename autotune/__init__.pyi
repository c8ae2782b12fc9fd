from autotune.commands.api import Campaign, load_space

__all__ = ["Campaign", "__version__", "load_space"]

__version__: str
