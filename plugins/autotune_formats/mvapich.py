"""Export variables of MVAPICH2 and of MVAPICH 3 and later: one algorithm for each collective."""

from autotune.errors import UserError
from autotune.exporters.origin import UNTRIED
from autotune.exporters.settings import EVERYWHERE, VariableScript
from autotune.stacks import mpich


class Mvapich2(VariableScript):
    """Export ``MV2_INTER_*_TUNING``: one algorithm for each collective, named by the algorithm's id."""

    name = "mvapich2"
    summary = (
        "mvapich2-env.sh: MV2_* variables, one algorithm id for each collective (MVAPICH2 2.x); never run"
    )
    family, file, notes = "mvapich", "mvapich2-env.sh", (UNTRIED, EVERYWHERE)

    def variables(self, collective: str, algorithm: str) -> dict[str, str]:
        """Return the variable that forces an algorithm for a collective, by the algorithm's id.

        Raises:
            UserError: the algorithm is not given as an id.
        """
        if algorithm and not algorithm.isdecimal():
            why = f"MVAPICH2 takes a number for {collective}, not {algorithm!r}"
            raise UserError(why, "MV2_INTER_*_TUNING forces an algorithm by its id")
        return {f"MV2_INTER_{collective.upper()}_TUNING": algorithm} if algorithm else {}


class Mvapich3(VariableScript):
    """Export ``MVP_*_INTRA_ALGORITHM``: MVAPICH 3 is based on MPICH and adds algorithms named ``osu_*``."""

    name = "mvapich3"
    summary = "mvapich-env.sh: MVP_* variables, one algorithm each (MVAPICH 3, 4, Plus); never run"
    family, file, notes = "mvapich", "mvapich-env.sh", (UNTRIED, EVERYWHERE)

    def variables(self, collective: str, algorithm: str) -> dict[str, str]:
        """Return the variable that forces one of MPICH's or OSU's algorithms for a collective.

        Raises:
            UserError: there is no such algorithm.
        """
        name = algorithm if algorithm.startswith("osu_") else mpich.check(collective, algorithm)
        return {f"MVP_{collective.upper()}_INTRA_ALGORITHM": name}
