"""Finds ``conf/`` and ``search_spaces/`` in an installed wheel or in a checkout."""

from pathlib import Path

from autotune.errors import SpaceError, allowed

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder ``conf`` or ``search_spaces``: inside the package (a wheel), else beside it (a checkout)."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def conf_text(name: str) -> str:
    """The text of a file of ``conf/``, e.g. ``probe/standard``."""
    return (folder("conf") / f"{name}.yaml").read_text()


def space_text(name: str) -> str:
    """The text of a search space, by the name of a shipped one or by path.

    Raises:
        SpaceError: there is no such file; the message lists the shipped ones.
    """
    shipped = {path.stem: path for path in sorted(folder("search_spaces").glob("*.yaml"))}
    path = shipped.get(name, Path(name).expanduser())
    try:
        return path.read_text()
    except OSError as exc:
        raise SpaceError(
            f"space={name}: no such search space ({exc.strerror})", f"{allowed(name, shipped)}, or a path"
        ) from exc


def rules_text(layer: str) -> str:
    """The text of the rules for the variables of a layer.

    Raises:
        SpaceError: there is no such file; the message lists the layers that have one.
    """
    shipped = {path.stem: path for path in sorted((folder("search_spaces") / "knobs").glob("*.yaml"))}
    if layer not in shipped:
        raise SpaceError(f"no rules for the variables of {layer!r}", allowed(layer, shipped))
    return shipped[layer].read_text(encoding="utf-8")
