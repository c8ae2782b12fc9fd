"""Decide whether launches can be alive at once (a *heat*), or must be made one after another.

Some machines cannot keep several launches alive at once: a device admits one process only, memory is too
small for all of them, or a batch system lets a job start one program at a time. Launches then fail in a heat,
although their settings are not at fault. So if launches fail in a heat, and no heat has succeeded on this
machine before, all launches of the failed heat are repeated one after the other. If the launches that failed
end well this time, and the same happens in another heat, no more heats are made on this machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from autotune.campaign import interruption
from autotune.history.trial import Observation, Status
from autotune.probe.protocol import NO_HEAT

APART = "launched apart"  # Prefix of the note on a launch that was made alone because a heat is impossible.

_FOR_MEMORY = ("SIGKILL", "OUT_OF_MEMORY")
"""Words in the reason of a failed launch which suggest that the launch was killed for lack of memory. If a
reason contains one of them, heats may be impossible even if an earlier heat has succeeded."""
_IN_VAIN = 2
"""Number of heats whose launches fail only together after which no more heats are made; a single failure may
be chance."""

Entrant = TypeVar("Entrant")


@dataclass
class HeatsHere:
    """Record whether heats are possible at one place, as far as is known."""

    why_none: str = ""  # Why launches cannot be alive at once; empty while heats are thought possible.
    succeeded: bool = False  # Whether all launches of at least one heat ended well.
    in_vain: int = 0  # Number of heats whose failed launches ended well when made alone.

    def observed(
        self,
        entrants: Sequence[Entrant],
        at_once: Callable[[Sequence[Entrant]], Sequence[Observation]],
        alone: Callable[[Entrant], Observation],
    ) -> tuple[Observation, ...]:
        """Return the observations of a heat, or of launches made one by one where heats are impossible.

        Args:
            entrants: The members of the heat.
            at_once: Launches all entrants together and returns one observation for each.
            alone: Launches one entrant by itself.

        Raises:
            Interrupted: the user ended the campaign.
        """
        together: Sequence[Observation] = ()
        why = self.why_none
        if not why:
            together = at_once(entrants)
            if not (why := self._suspicion(together)):
                self.succeeded = self.succeeded or all(o.ok for o in together)
                return tuple(together)
        repeated = []
        for entrant in entrants:
            interruption.check()
            repeated.append(alone(entrant))
        impossible = NO_HEAT in why
        if together:
            victims = [later for first, later in zip(together, repeated, strict=True) if not first.ok]
            if not impossible and not all(o.ok for o in victims):
                return tuple(together)  # the launches fail alone as well, so the heat was not the cause
            self.in_vain += 1
            self.why_none = why if impossible or self.in_vain >= _IN_VAIN else ""
        return tuple(replace(o, notes=(*o.notes, f"{APART}: {why}")) for o in repeated)

    def _suspicion(self, together: Sequence[Observation]) -> str:
        """Return the failure in words that suggests that heats are impossible here; empty if none does."""
        reasons = [o.reason for o in together if o.status in (Status.CRASHED, Status.TIMEOUT)]
        impossible = [o.reason for o in together if NO_HEAT in o.reason]
        memory = [reason for reason in reasons if any(word in reason for word in _FOR_MEMORY)]
        return next(iter([*impossible, *memory, *(() if self.succeeded else reasons)]), "")


def why_apart(observation: Observation) -> str:
    """Return why a launch of a heat was made alone; empty if it was made in its heat, or belongs to none."""
    notes = (note for note in observation.notes if note.startswith(APART))
    return next(notes, "").removeprefix(f"{APART}: ")
