"""``doctor``: report the MPI of this machine, its limits, and settings that would make it fail or slow."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from autotune.campaign.bench import machine_now
from autotune.commands.terminal import console
from autotune.errors import ExitCode, StackError
from autotune.exporters.origin import other_version
from autotune.exporters.user_files import everybodys, in_effect
from autotune.lint import doctor_checks
from autotune.lint.doctor_settings import Diagnosis, diagnosed, environment, files_of
from autotune.lint.finding import STACKS
from autotune.lint.verbs.lint import installed, names_of
from autotune.resources import space_text, user_text
from autotune.space import Parameter, Space
from autotune.space.loader import load_space
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, find
from autotune.stacks.stack import Stack, beginning
from autotune.views.documents import answer_text, fields_of


def doctor(as_json: bool, mpirun: str | None, space: str | None, nodes: int) -> ExitCode:
    """Print findings about this machine and its MPI, for campaigns on a number of nodes.

    If a setting of the user keeps MPI from starting, that setting is a finding, and MPI is examined without
    it.

    Args:
        as_json: Print a JSON document in place of a table.
        mpirun: The launcher of the MPI; None means the one on the search path.
        space: Name or path of a search space; those of its parameters that this machine has are printed too.
        nodes: Number of nodes of the campaigns.

    Returns:
        The exit code: ``FINDING`` if MPI starts only without some settings, ``MISTAKE`` if MPI does not start
        at all, otherwise ``WELL``.

    Raises:
        StackError: there is no MPI on this machine.
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
                installation = find(mpirun)
                findings = {**dict(beginning(installation)), "first launch": exc.message}
                _print(findings | _of_machine(installation, None, env, home), None, as_json, space, nodes)
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
    """Return the MPI of this machine, with its properties on a number of nodes.

    Raises:
        StackError: there is no MPI, or it does not start.
    """
    installation = find(mpirun)
    local = len(os.sched_getaffinity(0)) if nodes == 1 else 0
    return replace(dialect(installation.flavour).detect(installation, {}, {}, local), nodes=nodes)


def _of_machine(
    installation: Installation, stack: Stack | None, env: Mapping[str, str], home: Path
) -> dict[str, str]:
    """Return findings about the machine, the search path, and the settings in ``env`` and in files.

    ``stack`` is None if the MPI does not start.
    """
    findings = dict(machine_now())
    files_in_effect = tuple(in_effect(installation))
    for path in files_in_effect if installation.flavour == "openmpi" else ():
        if version_finding := other_version(user_text(path, lenient=True), installation.version):
            findings[str(path)] = version_finding
    file_places = [everybodys(installation)] if installation.flavour == "openmpi" else []
    everybodys_files = [
        path for place in file_places for path in (place.conf, place.ucx) if path and path.is_file()
    ]
    files = tuple(dict.fromkeys((*files_in_effect, *files_of(home), *everybodys_files)))
    mpi = f"{installation.flavour}{installation.version.split('.')[0]}"
    knobs, _ = installed(mpi)
    lint_stack = mpi if mpi in STACKS else ""
    return {
        **findings,
        **dict(doctor_checks.of_the_machine(cores=len(os.sched_getaffinity(0)))),
        **dict(doctor_checks.of_the_search_path(installation, env.get("PATH", os.defpath).split(os.pathsep))),
        **dict(doctor_checks.of_ucx(stack.facts if stack else (), env)),
        **dict(doctor_checks.of_settings(lint_stack, env, names_of(knobs), knobs, files)),
    }


def _print(
    findings: Mapping[str, str], stack: Stack | None, as_json: bool, space: str | None, nodes: int
) -> None:
    """Print the findings, and the parameters of a search space that are available here.

    ``stack`` is None if MPI does not start; the search space is then ignored.
    """
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
            "dropped": [fields_of(dropped, "parameter", "value", "reason") for dropped in offered.dropped],
            "knobs": [
                fields_of(decision.knob.knob, "name", "layer")
                | fields_of(decision, "value", "kept", "reason")
                for decision in (
                    decided(stack.installation, stack, Placement(max(2, nodes), nodes)) if stack else ()
                )
            ],
        }
        sys.stdout.write(answer_text("doctor", document))
        return
    from autotune.stacks.cleared import left_out
    from autotune.views.tables import machine_table

    console().print(machine_table(findings.items(), offered.dropped))
    if stack and (left_out_text := left_out(offered, stack.description)):
        console().print(f"\n{left_out_text}")


def _has(declared: Parameter, available: Parameter) -> str:
    """Return a text with the facts that make a parameter of a search space available on this machine."""
    by_value = (fact for value in available.values for fact in declared.value_requires.get(value, ()))
    required = dict.fromkeys((*declared.requires, *by_value))
    return f"has {', '.join(required)}" if required else "needs nothing that this machine could lack"
