"""``doctor``: what of MPI is on this machine."""

import os
import sys
from dataclasses import replace

from autotune.campaign.site import machine_now
from autotune.commands import doctor_checks
from autotune.commands.lint import installed, names_of
from autotune.commands.terminal import console
from autotune.exporters.origin import other_version
from autotune.exporters.user_files import in_effect
from autotune.lint import STACKS
from autotune.resources import space_text, user_text
from autotune.space import Parameter, Space
from autotune.space.loader import load_space
from autotune.views.documents import fields_of, json_text


def doctor(as_json: bool, mpirun: str | None, space: str | None, nodes: int) -> None:
    """Print what is here, as a campaign on so many nodes would find it."""
    from autotune.stacks import dialect
    from autotune.stacks.installation import find
    from autotune.stacks.knobs import decided
    from autotune.stacks.ports import Placement

    here = find(mpirun)
    local = len(os.sched_getaffinity(0)) if nodes == 1 else 0
    stack = replace(dialect(here.flavour).detect(here, {}, {}, local), nodes=nodes)
    findings = dict([*stack.findings(), *machine_now()])
    files = tuple(in_effect(here))
    for path in files if here.flavour == "openmpi" else ():
        if words := other_version(user_text(path, lenient=True), here.version):
            findings[str(path)] = words
    mpi = f"{here.flavour}{here.version.split('.')[0]}"
    knobs, _ = installed(mpi)
    asked = mpi if mpi in STACKS else ""
    findings |= {
        **dict(doctor_checks.of_the_machine(cores=len(os.sched_getaffinity(0)))),
        **dict(doctor_checks.of_the_search_path(here, os.get_exec_path())),
        **dict(doctor_checks.of_ucx(stack.facts, os.environ)),
        **dict(doctor_checks.of_settings(asked, os.environ, names_of(knobs), knobs, files)),
    }
    declared = load_space(space_text(space), space) if space else Space("", ())
    offered = stack.available(declared)
    if as_json:
        document = {
            "findings": findings,
            "facts": sorted(stack.facts),
            "kept": [
                {"parameter": p.name, "values": list(p.values), "reason": _has(declared[p.name], p)}
                for p in offered.parameters
            ],
            "dropped": [fields_of(one, "parameter", "value", "reason") for one in offered.dropped],
            "knobs": [
                fields_of(one.knob.knob, "name", "layer") | fields_of(one, "value", "kept", "reason")
                for one in decided(here, stack, Placement(max(2, nodes), nodes))
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
