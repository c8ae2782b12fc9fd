"""Estimate the time that a recommendation saves one application, and when the campaign is paid back.

In a slot (collective, communicator size, message size) one rank makes ``n`` calls in a run; ``t_d`` and
``t_t`` are the times of one call by default and tuned. A run saves Σ n (t_d − t_t), since all ranks make
their calls at the same time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.application.profiles import CallProfile, Calls
from autotune.errors import TableError, UserError
from autotune.history.lookup import reached
from autotune.recommend.recommendation import Gain


@dataclass(frozen=True, slots=True)
class Worth:
    """Says how much time a recommendation saves an application, and when that exceeds the campaign's time."""

    calls: float  # Number of calls of one rank in a run for which measured sizes are evidence.
    other_calls: float
    """Number of calls of one rank in a run for which measured sizes are no evidence, and which are assumed to
    save nothing: calls of other collectives, and calls more than a factor of two beyond the measured message
    and communicator sizes."""
    saved_s: float  # Seconds saved in one run.
    low_s: float  # Lower end of the 95 % interval, as if all sizes' errors had one sign.
    high_s: float  # Upper end of the 95 % interval of ``saved_s``.
    application_s: float  # Wall time of one run in seconds.
    campaign_s: float  # Wall time of the campaign's launches in seconds, on as many nodes as the application.
    other_sizes: tuple[int, ...] = ()
    """Communicator sizes of the profile's calls at which nothing was measured. If a measured size is within a
    factor of two of such a size, its times are used."""

    @property
    def saved_per_hour_s(self) -> float:
        """Return the seconds saved in an hour of application time."""
        return 3600.0 * self.saved_s / self.application_s

    @property
    def interval_per_hour_s(self) -> tuple[float, float]:
        """Return the interval of about 95 % for the seconds saved in an hour."""
        return 3600.0 * self.low_s / self.application_s, 3600.0 * self.high_s / self.application_s

    @property
    def paid_back_after_s(self) -> float:
        """Return the seconds of application time that pay back the campaign's time; infinite: never."""
        return self._paid_back_s(self.saved_s)

    @property
    def paid_back_interval_s(self) -> tuple[float, float]:
        """Return the interval of about 95 % for ``paid_back_after_s``.

        The upper end is infinite if it is not certain that anything is saved.
        """
        return self._paid_back_s(self.high_s), self._paid_back_s(self.low_s)

    def _paid_back_s(self, saved_s: float) -> float:
        return self.campaign_s * self.application_s / saved_s if saved_s > 0 else math.inf


def worth(
    profile: CallProfile, gains: Sequence[Gain], campaign_s: float, application_s: float | None = None
) -> Worth:
    """Return the time that the measured ``gains`` save the application with a call profile.

    The campaign's launches took ``campaign_s`` seconds of wall time, and a run takes ``application_s``
    seconds; None: the profile contains this time.

    Raises:
        UserError: there are no gains over the default, or the run's time is not known or not above 0.
        TableError: the profile has no calls that were measured, or its calls take longer than a run.
    """
    run_s = profile.application_s if application_s is None else application_s
    if not gains:
        raise UserError("the recommendation gains nothing that could be added up", "it is the default itself")
    if run_s is not None and not 0 < run_s < math.inf:
        raise UserError(f"a run of {run_s:g} s", "--application-s: its wall time in seconds, above 0")
    if run_s is None:
        raise UserError(f"{profile.source} does not say how long a run takes", "give --application-s SECONDS")
    slots = [gain.slot for gain in gains]
    collectives = {slot[0] for slot in slots}

    def is_tuned(c: Calls) -> bool:
        return any(c.means(n) and reached(slots, n, c.comm_size, c.message_bytes) for n in collectives)

    tuned = tuple(filter(is_tuned, profile.calls))
    if profile.calls and not tuned:
        sizes, ranks = {slot[2] for slot in slots}, sorted({slot[1] for slot in slots})
        measured = f"{', '.join(sorted(collectives))} of {min(sizes)} … {max(sizes)} B"
        hint = (
            f"measured: {measured} on {', '.join(map(str, ranks))} ranks; that covers calls within a factor"
        )
        raise TableError(f"{profile.source} calls nothing of what was measured", f"{hint} of two")
    covered = math.fsum(c.count for c in tuned)
    same_collectives = (c for c in profile.calls if any(map(c.means, collectives)))
    other_sizes = {c.comm_size for c in same_collectives if c.comm_size} - {slot[1] for slot in slots}
    shares = replace(profile, calls=tuned).weights(slots)
    spent_s = [covered * shares[gain.slot] * gain.default_s for gain in gains]
    if (total_s := math.fsum(spent_s)) > run_s:
        raise TableError(
            f"{profile.source}: {covered:.4g} calls take {total_s:.3g} s by default, a run {run_s:.3g} s",
            "calls are counted for one rank and one run; --application-s is the wall time of that run",
        )
    spent = [(seconds, gain) for seconds, gain in zip(spent_s, gains, strict=True) if seconds]
    saved, low, high = (sum(seconds * gain.saved[end] for seconds, gain in spent) for end in range(3))
    uncovered = math.fsum(c.count for c in profile.calls) - covered
    return Worth(covered, uncovered, saved, low, high, run_s, campaign_s, tuple(sorted(other_sizes)))


def end_text(value: float) -> str:
    """Return an end of an interval of what is saved as text; ``−∞`` if too few launches bound a loss."""
    return "−∞" if value == -math.inf else f"{value:.3g}"
