"""Finds ``conf/`` and ``search_spaces/`` in an installed wheel or in a checkout, and reads users' files."""

from pathlib import Path

from autotune.errors import SpaceError, TableError, UserError, allowed

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
    return user_text(path, f"space={name}", f"{allowed(name, shipped)}, or a path", raised=SpaceError)


def rules_text(layer: str) -> str:
    """The text of the rules for the variables of a layer.

    Raises:
        SpaceError: there is no such file; the message lists the layers that have one.
    """
    shipped = {path.stem: path for path in sorted((folder("search_spaces") / "knobs").glob("*.yaml"))}
    if layer not in shipped:
        raise SpaceError(f"no rules for the variables of {layer!r}", allowed(layer, shipped))
    return shipped[layer].read_text(encoding="utf-8")


def user_text(
    path: Path,
    named: str = "",
    hint: str = "",
    *,
    raised: type[UserError] = TableError,
    lenient: bool = False,
    line_ends: bool = False,
) -> str:
    """The text of a file that the user named, in UTF-8.

    Args:
        path: Where it lies.
        named: What the message calls it; empty: its path.
        hint: What is allowed.
        raised: What is raised where it cannot be read.
        lenient: Replace what is no UTF-8, for logs contain anything.
        line_ends: Leave the line ends as they are.

    Raises:
        UserError: ``raised``: it cannot be read, or is no UTF-8.
    """
    try:
        with path.expanduser().open(
            encoding="utf-8", errors="replace" if lenient else "strict", newline="" if line_ends else None
        ) as file:
            return file.read()
    except UnicodeDecodeError as exc:
        why = f"byte {exc.start + 1} is no UTF-8"
    except OSError as exc:
        why = exc.strerror or str(exc)
    except (ValueError, RuntimeError) as exc:  # a name that no file has, or of nobody's home
        why = str(exc)
    raise raised(f"{named or path} cannot be read: {why}", hint)
