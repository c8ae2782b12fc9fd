"""What a campaign says of launches that had no time for some of their cells."""

from dataclasses import replace

from autotune.campaign.noise import untimed
from autotune.history.trial import History, Observation, Phase, Status, Trial
from autotune.probe.protocol import NOT_TIMED
from autotune.space import Point

SAID = f"97 of 108 {NOT_TIMED} (allreduce 20, bcast 77): probe.budget_s=0.2 is too short for a call of each"


def test_the_last_of_such_launches_is_quoted_and_they_are_counted():
    made = [Observation(Trial(number, Phase.SEARCH, Point()), Status.OK) for number in (1, 2, 3)]
    assert untimed(History(tuple(made))) is None
    for i, enough in enumerate((9, 12)):
        made[i] = replace(made[i], notes=("timing: native", f"{SAID}; about {enough} would do"))
    found = untimed(History(tuple(made)))
    assert found is not None
    assert found.grave
    assert found.text == f"in 2 of 3 launches; of the last one {SAID}; about 12 would do"
