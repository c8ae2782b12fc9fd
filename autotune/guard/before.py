"""Restore the environment and the parameter files that were in effect on the day of ``guard keep``.

Launches in that environment alternate with launches in today's, so that the speeds of the two can be
compared. The reference is the state that ``guard keep`` saved; a side is an environment that is launched
repeatedly. Values of variables may be secrets, and files in the home directory are private, so the file in
which they are saved is readable by the user alone. Variables whose names mark them as secret are not saved.
"""

import hashlib
import os
import re
import site as user_site
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune.campaign.turns import Side, are_heats
from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.guard.beside import Beside
from autotune.guard.facts import FOLDERS, PREFIX, Facts, replaced, variables_read
from autotune.guard.heats import Span, alone, blocks_in_time, environment_side
from autotune.guard.kept import Kept, Launched, Night
from autotune.guard.nights import Rates
from autotune.guard.place import Place
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Status
from autotune.probe.own_files import opened_own
from autotune.resources.secret import is_secret
from autotune.stacks.installation import Installation
from autotune.stacks.parameter_file import environment
from autotune.stacks.ports import Rendering
from autotune.structure import Document, parsed, plain
from autotune.views.documents import json_text

FILE = "private.json"  # Name of the JSON file that contains ``Private``, in the folder of ``kept.json``.
_MOST_BYTES = 1 << 20
"""Maximum size in bytes of ``FILE`` and of each parameter file; they usually have a few kilobytes."""
_LAUNCHERS = re.compile(r"(PRTE|HYDRA|I_MPI_HYDRA)_.*")
"""Pattern of variables that MPI's launcher reads itself, so that they cannot be unset for a launch."""


@dataclass(frozen=True, slots=True)
class Private:
    """Environment variables and parameter files that were in effect on the day of ``guard keep``."""

    environment: Mapping[str, str] = field(default_factory=dict)  # Values by name, without secrets.
    files: Mapping[str, str] = field(default_factory=dict)  # Text of each parameter file by path.


@dataclass(frozen=True, slots=True)
class Restoration:
    """Changes to a launch that restore the environment of the reference (saved by ``guard keep``)."""

    env: Mapping[str, str] = field(default_factory=dict)  # Saved values of variables that differ today.
    unset: tuple[str, ...] = ()  # Variables that are set today but were not set for the reference.
    lacking: tuple[str, ...] = ()  # Descriptions of the parts of the saved state that cannot be restored.

    def amended(self, rendering: Rendering) -> Rendering:
        """Return a launch in the saved environment, except for variables that ``rendering`` sets itself."""
        env = {**self.env, **rendering.env}
        return replace(rendering, env=env, unset=tuple(n for n in self.unset if n not in env))


def keep_private(folder: Path, facts: Facts) -> str:
    """Save the environment and parameter files in a file for this user alone; return the file's SHA-256."""
    variables = {name: value for name, value in variables_read().items() if not is_secret(name)}
    files = {path: text for path in facts.parameters if (text := _text_of(Path(path), facts.files[path]))}
    text = json_text(plain(Private(variables, files)))
    write_files({folder / FILE: None}, below=folder)  # an existing file would keep its permissions
    write_files({folder / FILE: text}, mode=0o600, below=folder)
    return _checksum(text.encode())


def kept_private(folder: Path, reference: Kept) -> Private | None:
    """Return the environment and the files that ``keep_private`` saved for a reference.

    The result is None if the file does not exist, belongs to another user, or was changed after it was saved.

    Raises:
        UserError: the content of the file is damaged.
    """
    with suppress(OSError), opened_own(folder / FILE) as descriptor:
        data = os.read(descriptor, _MOST_BYTES)
        if reference.private and _checksum(data) == reference.private:
            path = folder / FILE
            document = parsed(data.decode(), f"{path} is damaged", UserError, "keep it again")
            private: Private = Document(str(path), own=True).structured(Private, document)
            return private
    return None


def restoration(
    reference: Kept, current: Facts, private: Private | None, installation: Installation, work_folder: Path
) -> Restoration:
    """Return the changes to a launch of today that restore the environment and files of the reference.

    Without ``private``, no saved value can be restored, and only variables that are new today are unset.
    Copies of the saved files are written to ``work_folder``, which all nodes must see.
    """
    values = private or Private()
    env, unset, lacking = _variables(reference.facts, current, values)
    old, new = reference.facts.files, current.files
    paths = dict.fromkeys((*reference.facts.parameters, *current.parameters))
    edited = [path for path in paths if old.get(path, "") != new.get(path, "")]
    home = os.environ.get("HOME", "")
    place = make_empty(work_folder / "before").absolute()
    if at_home := [path for path in edited if home and Path(path).is_relative_to(home)]:
        copies = {path: text for path, text in values.files.items() if Path(path).is_relative_to(home)}
        copied = {place / Path(path).relative_to(home): text for path, text in copies.items()}
        write_files(copied, parents=True, below=place)
        cache = os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
        env |= {"HOME": str(place), "XDG_CACHE_HOME": cache, "PYTHONUSERBASE": user_site.getuserbase()}
        lacking += [f"{path} as it was" for path in at_home if old.get(path) and path not in copies]
    system = str(installation.mpirun.resolve().parent.parent / "etc" / "openmpi-mca-params.conf")
    for path in (path for path in edited if path not in at_home):
        text = values.files.get(path, "")
        if path == system and (text or not old.get(path)):
            copy = place / "system" / Path(path).name
            write_files({copy: text}, parents=True, below=place)
            user_file = f"{env.get('HOME', home)}/.openmpi/mca-params.conf"
            env["OMPI_MCA_mca_base_param_files"] = f"{user_file}:{copy}"
            unset += [name for name in _assigned(Path(path)) if name not in values.environment]
        else:
            lacking.append(f"{path} as it was")
    return Restoration(env, tuple(dict.fromkeys(unset)), tuple(lacking))


def sides_of(
    place: Place, reference_place: Place, change: Restoration, work_folder: Path
) -> tuple[Side, Side, Side]:
    """Return the three sides of the comparison, which are launched in turn.

    The sides are MPI with its own defaults, the settings in today's environment, and the settings in the
    environment of the reference. The MPI of the third side is that of ``reference_place``, which may be
    different from today's, and ``change`` restores its environment. All nodes must see ``work_folder``.
    """
    amend_now, amend_kept = place.recipe(work_folder).under, reference_place.recipe(work_folder).under
    variants = (
        ("default", place, lambda rendering: rendering),
        ("settings", place, amend_now),
        ("as kept", reference_place, lambda rendering: change.amended(amend_kept(rendering))),
    )
    sides = []
    for name, side_place, amended in variants:
        measurement = replace(alone(side_place.measurement), amended=amended)
        observer = side_place.bench.observer(measurement, side_place.bench.space, work_folder)
        sides.append(environment_side(name, observer, measurement.timeout_s))
    return sides[0], sides[1], sides[2]


def launch_sides(
    night: Night, sides: tuple[Side, Side, Side], per_side: int, span: Span, alpha: float
) -> tuple[Night, Beside, str]:
    """Launch the sides of ``sides_of`` in turn until the comparison is decided or the time is used up.

    Each side is launched ``per_side`` times at most. ``alpha`` is the error rate of the comparison; 0 means
    that the last two sides are identical: any difference between them is a false alarm and is dropped.

    Returns:
        The record of the check with the launches, the comparison of today's settings with those of the
        reference, and the reason why the settings have no effect, which is empty if they have an effect.
    """
    launched: tuple[list[Observation], ...] = ([], [], [])
    default, settings, as_kept = launched
    comparison = Beside()
    for block in blocks_in_time(sides, per_side, span):
        for side_index, observation in block:
            launched[side_index].append(observation)
        comparison = Beside.of(as_kept, settings, ("as kept", "now"), alpha or Rates().a_year)
        if not alpha:
            comparison = replace(comparison, slower=(), failures="")
        if comparison.settled:
            break
    entries = [*((False, o) for o in default), *((True, o) for o in settings)]
    entries.sort(key=lambda entry: entry[1].trial.number)
    hosts = tuple(dict.fromkeys(host for _, o in entries for host in o.hosts))
    problem = next((o.reason for o in settings if o.status is Status.NOT_APPLIED), "")
    launches = tuple(Launched.by(*entry) for entry in entries)
    return replace(night, launches=launches, hosts=hosts, heats=are_heats(sides)), comparison, problem


def lost_for_good(reference: Kept, current: Facts, kept_mpi_runs: bool) -> Iterator[str]:
    """Yield descriptions of the parts of the saved state that no launch of today can restore.

    ``kept_mpi_runs`` says that the MPI of the reference is still installed and launched for the comparison.
    """
    kept = reference.facts
    for name in dict.fromkeys((*kept.machine, *current.machine)):
        if (value := kept.machine.get(name, "")) != current.machine.get(name, ""):
            yield f"{name} {value or '(none)'}"
    if changed := replaced(kept):
        more_text = f" and {len(changed) - 1} more libraries" if len(changed) > 1 else ""
        yield f"{changed[0]}{more_text} as kept"
    elif not kept_mpi_runs and kept.stack != current.stack:
        differing = kept.stack.items() - current.stack.items()
        versions = [pair for pair in kept.stack.items() if pair in differing and "built" not in pair[0]]
        yield ", ".join(map(" ".join, versions))


def _variables(
    reference: Facts, current: Facts, values: Private
) -> tuple[dict[str, str], list[str], list[str]]:
    """Return variables to set, variables to unset, and descriptions of what cannot be restored."""
    env: dict[str, str] = {}
    unset: list[str] = []
    lacking: list[str] = []
    for name in dict.fromkeys((*reference.environment, *current.environment)):
        if name == PREFIX or reference.environment.get(name) == current.environment.get(name):
            continue
        if name not in reference.environment and _LAUNCHERS.fullmatch(name):
            lacking.append(f"the launcher without {name}")
        elif name not in reference.environment:
            unset.append(name)
        elif name in values.environment:
            env[name] = values.environment[name]
        elif name in FOLDERS:
            env[name] = reference.environment[name]
        else:
            lacking.append(f"the value of {name}")
    return env, unset, lacking


def _text_of(path: Path, checksum: str) -> str:
    """Return the text of a file if it has the given checksum and is UTF-8, otherwise an empty text."""
    with suppress(OSError, UnicodeDecodeError):
        data = path.read_bytes() if checksum and path.stat().st_size < _MOST_BYTES else b""
        return data.decode() if _checksum(data) == checksum else ""
    return ""


def _assigned(path: Path) -> list[str]:
    """Return the names of the variables that a parameter file makes Open MPI's launcher set for the ranks."""
    with suppress(OSError, UserError, UnicodeDecodeError):
        return list(environment(path.read_text(encoding="utf-8")))
    return []


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
