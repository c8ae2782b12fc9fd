"""``doctor``: what of MPI is on this machine."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from autotune.campaign.site import machine_now
from autotune.commands import doctor_checks
from autotune.commands.doctor_settings import Diagnosis, diagnosed, environment, files_of
from autotune.commands.lint import installed, names_of
from autotune.commands.terminal import console
from autotune.errors import ExitCode, StackError
from autotune.exporters.origin import other_version
from autotune.exporters.user_files import everybodys, in_effect
from autotune.lint import STACKS
from autotune.resources import space_text, user_text
from autotune.space import Parameter, Space
from autotune.space.loader import load_space
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, find
from autotune.stacks.stack import Stack, beginning
from autotune.views.documents import fields_of, json_text


def doctor(as_json: bool, mpirun: str | None, space: str | None, nodes: int) -> ExitCode:
    """Print what is here, as a campaign on so many nodes would find it.

    Where a setting of the user's keeps MPI from starting, the setting is a finding, and everything else is
    as without it.

    Raises:
        StackError: there is no MPI here.
    """
    env, home = dict(os.environ), Path.home()

    def attempt() -> Stack:
        return _detected(mpirun, nodes)

    with TemporaryDirectory() as empty:
        try:
            stack, diagnosis = attempt(), Diagnosis(env)
        except StackError as exc:
            repaired = diagnosed(attempt, env, home, Path(empty))
            if repaired is None:
                here = find(mpirun)
                findings = {**dict(beginning(here)), "first launch": exc.message}
                _print(findings | _of_machine(here, None, env, home), None, as_json, space, nodes)
                return ExitCode.MISTAKE
            diagnosis = repaired
            with environment(diagnosis.environment):
                stack = attempt()
        with environment(diagnosis.environment):
            findings = dict(stack.findings()) | _of_machine(stack.installation, stack, env, home)
            for setting, message in diagnosis.broken:
                effect = f"{setting.value}: with it {message}; the rest of this table is without it"
                findings[setting.label] = "; ".join(filter(None, (effect, findings.get(setting.label))))
            _print(findings, stack, as_json, space, nodes)
    return ExitCode.FINDING if diagnosis.broken else ExitCode.WELL


def _detected(mpirun: str | None, nodes: int) -> Stack:
    """The MPI that is found here, as it is on so many nodes."""
    here = find(mpirun)
    local = len(os.sched_getaffinity(0)) if nodes == 1 else 0
    return replace(dialect(here.flavour).detect(here, {}, {}, local), nodes=nodes)


def _of_machine(
    here: Installation, stack: Stack | None, env: Mapping[str, str], home: Path
) -> dict[str, str]:
    """Findings beside those of the MPI itself: machine, search path, settings in ``env`` and in files."""
    findings = dict(machine_now())
    ours = tuple(in_effect(here))
    for path in ours if here.flavour == "openmpi" else ():
        if words := other_version(user_text(path, lenient=True), here.version):
            findings[str(path)] = words
    places = [everybodys(here)] if here.flavour == "openmpi" else []
    others = [path for place in places for path in (place.conf, place.ucx) if path and path.is_file()]
    files = tuple(dict.fromkeys((*ours, *files_of(home), *others)))
    mpi = f"{here.flavour}{here.version.split('.')[0]}"
    knobs, _ = installed(mpi)
    asked = mpi if mpi in STACKS else ""
    return {
        **findings,
        **dict(doctor_checks.of_the_machine(cores=len(os.sched_getaffinity(0)))),
        **dict(doctor_checks.of_the_search_path(here, env.get("PATH", os.defpath).split(os.pathsep))),
        **dict(doctor_checks.of_ucx(stack.facts if stack else (), env)),
        **dict(doctor_checks.of_settings(asked, env, names_of(knobs), knobs, files)),
    }


def _print(
    findings: Mapping[str, str], stack: Stack | None, as_json: bool, space: str | None, nodes: int
) -> None:
    """Print the findings, and what a search space has here; without a stack nothing is said of one."""
    from autotune.stacks.knobs import decided
    from autotune.stacks.ports import Placement

    declared = load_space(space_text(space), space) if space and stack else Space("", ())
    offered = stack.available(declared) if stack else declared
    if as_json:
        document = {
            "findings": findings,
            "facts": sorted(stack.facts) if stack else [],
            "kept": [
                {"parameter": p.name, "values": list(p.values), "reason": _has(declared[p.name], p)}
                for p in offered.parameters
            ],
            "dropped": [fields_of(one, "parameter", "value", "reason") for one in offered.dropped],
            "knobs": [
                fields_of(one.knob.knob, "name", "layer") | fields_of(one, "value", "kept", "reason")
                for one in (
                    decided(stack.installation, stack, Placement(max(2, nodes), nodes)) if stack else ()
                )
            ],
        }
        sys.stdout.write(json_text(document))
        return
    from autotune.views.tables import machine_table

    console().print(machine_table(findings.items(), offered.dropped))


def _has(declared: Parameter, here: Parameter) -> str:
    """Why a parameter of a space is available."""
    by_value = (fact for value in here.values for fact in declared.value_requires.get(value, ()))
    wanted = dict.fromkeys((*declared.requires, *by_value))
    return f"has {', '.join(wanted)}" if wanted else "needs nothing that this machine could lack"
