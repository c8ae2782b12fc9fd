"""The control variables of choices, one choice in force at a time."""

from collections.abc import Mapping

from autotune.probe.mpit import ToolInterface, named


class ControlVariables:
    """What this process has set through MPI_T, and what was there before."""

    def __init__(self, tools: ToolInterface) -> None:
        self._tools = tools
        self._initial: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._seen: dict[str, list[str]] = {}

    @property
    def read_back(self) -> dict[str, str]:
        """Every variable that was written → the values that read back, with the library's names for them."""
        return {name: ", ".join(values) for name, values in self._seen.items()}

    def enforce(self, cvars: Mapping[str, int | str]) -> None:
        """Set these, and every other variable that was ever touched back to what it was.

        Raises:
            StackError: a variable that does not exist, or a value that it does not take.
        """
        for name in cvars:
            if name not in self._initial:
                self._initial[name] = self._now[name] = self._tools.read(name)
        for name, wanted in {**self._initial, **{k: str(v) for k, v in cvars.items()}}.items():
            if self._now[name] != wanted:
                value = self._tools.write(name, wanted)
                self._now[name] = wanted
                seen = self._seen.setdefault(name, [])
                shown = named(value, self._tools.variable(name).enumerator)
                if shown not in seen:
                    seen.append(shown)
