"""``doctor``: what of MPI is on this machine."""

import sys

from autotune.campaign.site import machine_now
from autotune.resources import space_text
from autotune.space.loader import load_space
from autotune.views.documents import json_text


def doctor(as_json: bool, mpirun: str | None, space: str | None) -> None:
    """Print what is here."""
    from autotune.stacks import dialect
    from autotune.stacks.installation import find

    here = find(mpirun)
    stack = dialect(here.flavour).detect(here, {}, {}, 0)
    findings = dict([*stack.findings(), *machine_now()])
    dropped = stack.available(load_space(space_text(space), space)).dropped if space else ()
    if as_json:
        document = {
            "findings": findings,
            "facts": sorted(stack.facts),
            "dropped": [{"parameter": d.parameter, "value": d.value, "reason": d.reason} for d in dropped],
        }
        sys.stdout.write(json_text(document))
        return
    from rich.console import Console

    from autotune.views.tables import machine_table

    Console().print(machine_table(findings.items(), dropped))
