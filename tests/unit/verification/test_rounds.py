"""The verification phase on a machine whose speeds are known: it keeps what holds and nothing else."""

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.exporters.document import JsonDocument, recommendation_of
from autotune.history.lookup import choice_at
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.recommend.front import candidates
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.space import Level, Parameter, Point, Space
from autotune.verification.comparison import Comparison, SlotDecision
from autotune.verification.rounds import Verifier
from autotune.verification.sequential import SequentialDesign
from autotune.views.text import loops_disagree

SIZES = (16, 1024, 65536)
SPACE = Space(
    "test",
    (
        Parameter("UCX_TLS", ("all", "self,posix", "self,tcp"), "all"),
        Parameter("algorithm", ("default", "ring"), "default", Level.CALL, per_size=True),
    ),
)
OBJECTIVES = (Objective("latency", max_bytes=1024), Objective("bandwidth", min_bytes=65536))
FRESH = (Phase.VERIFY, Phase.STARTS)
DEFAULT, RING = Point.of({"algorithm": "default"}), Point.of({"algorithm": "ring"})


def point(tls):
    return Point.of({"UCX_TLS": tls})


class Machine:
    """Seconds of each (transport, choice, size), with noise; a search may see others than the true ones.

    ``other``: seconds in the probe's other loop, which launches of the verification measure too. ``also``:
    how many times as long other calls take with a transport, by name. ``ending``: how the n-th fresh
    launch of a side (of a transport, or ``untouched``) ends, ``wrong_result`` in one cell.
    """

    def __init__(self, true, seen=None, noise=0.005, seed=0, broken=(), other=None, ending=None, also=None):
        self.also = also or {}
        self.other, self.ending, self.made = other, ending or (lambda side, n: Status.OK), Counter()
        self.true, self.seen, self.noise, self.broken = true, seen or true, noise, broken
        self.rng = np.random.default_rng(seed)

    def observe(self, trial):
        deployed = trial.subject is Subject.DEPLOYED
        if deployed and trial.point["UCX_TLS"] in self.broken:
            return Observation(trial, Status.CRASHED, reason="as planned")
        side, status = trial.point["UCX_TLS"] if deployed else "untouched", Status.OK
        if trial.phase in FRESH:
            self.made[side] += 1
            status = self.ending(side, self.made[side])
        if status not in (Status.OK, Status.WRONG_RESULT):
            return Observation(trial, status, reason="as planned")
        speeds = self.true if trial.phase in FRESH else self.seen
        tls = "all" if trial.subject is Subject.UNTOUCHED else trial.point["UCX_TLS"]
        choices = [DEFAULT, RING] if trial.subject is Subject.SWEEP else [None]
        estimates = []
        for size in SIZES:
            for choice in choices:
                acting = choice or self._rule(trial, size)
                seconds = speeds(tls, acting, size) * np.exp(self.rng.normal(0, self.noise))
                cell = Cell("allreduce", 2, size, choice or Point())
                extra = {}
                if self.other and trial.phase is Phase.VERIFY:
                    other = self.other(tls, acting, size) * np.exp(self.rng.normal(0, self.noise))
                    extra = {"other_loop_s": other}
                estimates.append(Estimate(cell, seconds, 0.001 * seconds, 20, extra=extra))
        if status is Status.WRONG_RESULT:
            estimates[0] = replace(estimates[0], status=status)
        extra = {
            f"beside {name}": 1e-6 * times.get(tls, 1.0) * np.exp(self.rng.normal(0, self.noise))
            for name, times in self.also.items()
            if trial.phase is Phase.VERIFY
        }
        return Observation(trial, Status.OK, tuple(estimates), extra=extra)

    @staticmethod
    def _rule(trial, size):
        rules = [r.choice for r in trial.rules if r.min_bytes <= size]
        return rules[-1] if rules and rules[-1] else DEFAULT


def searched(machine, transports=("all", "self,posix", "self,tcp"), baselines=3):
    """Launches of the baseline, and one of each transport."""
    history = History()
    trials = [Trial(n, Phase.BASELINE, SPACE.default, Subject.UNTOUCHED) for n in range(1, baselines + 1)]
    trials += [Trial(n, Phase.SEARCH, point(tls)) for n, tls in enumerate(transports, start=baselines + 1)]
    return history.plus(machine.observe(t) for t in trials)


def run(verifier, machine, history):
    while (trial := verifier.next_trial(history)) is not None:
        assert trial.number == len(history) + 1
        history = history.plus([machine.observe(trial)])
        assert len(history) < 400
    return history


DESIGN = SequentialDesign(setting_launches=16, alpha=0.05)


def verifier(**changes):
    return Verifier(SPACE, OBJECTIVES, replace(DESIGN, **changes), seed=3)


def posix_and_ring(tls, choice, size):
    """posix is faster everywhere; ring is faster on large messages only."""
    base = 1e-6 * (1 + size / 1024)
    base *= {"all": 1.0, "self,posix": 0.7, "self,tcp": 2.0}[tls]
    return base * (1.0 if choice == DEFAULT else (0.6 if size > 1024 else 1.5))


def test_what_is_really_better_is_confirmed():
    machine = Machine(posix_and_ring)
    history = run(verifier(), machine, searched(machine))
    verdict = verifier().verdict(history)
    assert verdict.complete
    assert verdict.recommendation.point == point("self,posix")
    assert [r.choice for r in verdict.recommendation.rules] == [Point(), RING, Point()]
    assert len(verdict.rounds) == 1
    assert len(verdict.rounds[0].launches) == DESIGN.launches
    assert all(c.decision is SlotDecision.STILL_BETTER for c in verdict.rounds[0].comparisons)
    assert verdict.recommendation.speedup == pytest.approx((1 / 0.7 / 0.7 / 0.42) ** (1 / 3), rel=0.02)
    assert verdict.text.startswith("verified: 1.70× (1.69 … 1.70)")
    assert verdict.text.endswith(
        "on 32 fresh launches; no size more than 1 % slower (95 %); a slowdown in less than 17 % of launches"
        " would not show on 16 of them, a failure in less than 10 % not on 29"
        " (13 that time nothing took 0 s)"
    )


def test_what_a_discovery_confirmed_is_verified_although_the_search_saw_no_gain():
    def no_gain(tls, choice, size):
        return 1e-6 * (1 + size / 1024)

    machine = Machine(posix_and_ring, seen=no_gain)
    history = searched(machine)
    asked = replace(verifier(), confirmed=(point("self,posix"),))
    assert asked.best(history).point != point("self,posix")
    assert asked.verdict(run(asked, machine, history)).recommendation.point == point("self,posix")


def test_what_a_discovery_confirmed_waits_for_what_promises_more():
    def times(tls, choice, size):
        return 1e-6 * (1 + size / 1024) * {"all": 1.0, "self,posix": 0.9, "self,tcp": 0.5}[tls]

    machine = Machine(times)
    asked = replace(verifier(), confirmed=(point("self,posix"),))
    history = run(asked, machine, searched(machine))
    deployed = [o.trial.point for o in history if o.trial.subject is Subject.DEPLOYED]
    assert deployed[0] == point("self,tcp")
    assert asked.verdict(history).recommendation.point == point("self,tcp")


def slower_at_16_bytes(tls, choice, size):
    """As in the probe's own loop, but posix is 20 % slower at 16 B."""
    return posix_and_ring(tls, choice, size) * (1.7 if tls == "self,posix" and size == 16 else 1.0)


def test_what_the_other_loop_shows_is_said_and_decides_nothing():
    machine = Machine(posix_and_ring, other=slower_at_16_bytes)
    asked = replace(verifier(), other_loop="tight")
    verdict = asked.verdict(run(asked, machine, searched(machine)))
    assert verdict.recommendation.point == point("self,posix")
    assert re.search(r"; in a tight loop 1\.\d+× \(.*\), but 0\.8\d× at 16 B of allreduce$", verdict.text)
    gains = {gain.slot[2]: gain for gain in verdict.recommendation.gains}
    assert gains[16].other_loop[0] == pytest.approx(1 / 0.7 / 1.7, rel=0.02)
    assert [loops_disagree(gains[size]) for size in SIZES] == [size == 16 for size in SIZES]
    document = JsonDocument().export(verdict.recommendation, Path())["recommendation.json"]
    back = {gain.slot[2]: gain.other_loop for gain in recommendation_of(document).gains}
    assert back[16] == pytest.approx(gains[16].other_loop)


def test_what_loses_in_either_loop_is_refused_where_both_count():
    machine = Machine(posix_and_ring, other=slower_at_16_bytes)
    asked = replace(verifier(), other_loop="tight", both_count=True)
    verdict = asked.verdict(run(asked, machine, searched(machine)))
    assert verdict.recommendation.point != point("self,posix")
    lost = [r.lost | r.open for r in verdict.rounds if r.setting.point == point("self,posix")]
    assert {slot[2] for slots in lost for slot in slots} == {16}
    same = Machine(posix_and_ring, other=posix_and_ring)
    assert asked.verdict(run(asked, same, searched(same))).recommendation.point == point("self,posix")


def test_a_loop_that_counts_and_was_not_measured_is_not_passed():
    machine = Machine(posix_and_ring)
    asked = replace(verifier(), other_loop="tight", both_count=True)
    verdict = asked.verdict(run(asked, machine, searched(machine)))
    assert verdict.recommendation.point == SPACE.default
    assert verdict.text.endswith("the stack's own defaults stay")


def test_a_setting_that_is_wild_at_one_size_does_not_stand_before_those_that_promise_less():
    rng = np.random.default_rng(1)

    def seen(tls, choice, size):
        return 1e-6 * (1 + size / 1024) * {"all": 1.0, "self,posix": 0.5, "self,tcp": 0.8}[tls]

    def true(tls, choice, size):
        wild = 2 * np.exp(rng.normal(0, 1.5)) if tls == "self,posix" and size == 1024 else 1.0
        return seen(tls, choice, size) * wild

    machine = Machine(true, seen=seen)
    verdict = verifier().verdict(run(verifier(), machine, searched(machine)))
    assert verdict.rounds[0].setting.point == point("self,posix")
    assert verdict.recommendation.point == point("self,tcp")


def known_at_16_bytes_alone(spread, seed=2):
    """posix is surely faster at 16 B; elsewhere it is no different, in launches that lie far apart."""
    rng = np.random.default_rng(seed)

    def seen(tls, choice, size):
        return 1e-6 * (1 + size / 1024) * (0.55 if tls == "self,posix" and size == 16 else 1.0)

    def true(tls, choice, size):
        return seen(tls, choice, size) * (1.0 if size == 16 else np.exp(rng.normal(0, spread)))

    return Machine(true, seen=seen)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_size_of_which_nothing_is_known_is_not_handed_over(seed):
    machine = known_at_16_bytes_alone(0.7, seed)
    verdict = verifier().verdict(run(verifier(), machine, searched(machine)))
    assert verdict.recommendation == replace(verdict.recommendation, point=SPACE.default, rules=())
    assert "may be slower at" in verdict.text or "was left after 8 launches of its own" in verdict.text
    assert verdict.text.endswith("the stack's own defaults stay")
    sizes = {slot[2] for r in verdict.rounds for slot in r.open}
    assert sizes
    assert 16 not in sizes


@pytest.mark.parametrize("spread", [0.03, 0.06])
def test_launches_go_on_while_they_may_tell_what_is_open(spread):
    machine = known_at_16_bytes_alone(spread, seed=3)
    verdict = verifier().verdict(run(verifier(), machine, searched(machine)))
    assert verdict.recommendation.point == point("self,posix")
    assert not verdict.rounds[-1].open
    assert 0.0 < verdict.hidden <= 0.1
    assert f"no size more than {math.ceil(100 * verdict.hidden)} % slower (95 %); a" in verdict.text


@pytest.mark.parametrize(
    ("slow", "times", "own", "holds"), [({7}, 1.3, 16, True), (set(range(3, 60, 5)), 2.8, 16, False)]
)
def test_launches_go_on_as_long_as_they_may_outweigh_those_that_were_slow(slow, times, own, holds):
    """12 launches, one of them slow, exclude no loss of 10 % at that size; of a fifth no number would."""
    made = Counter()

    def steady(tls, choice, size):
        return (
            1e-6 * {"all": 1.0, "self,posix": 0.95, "self,tcp": 2.0}[tls] * (1 if choice == DEFAULT else 1.5)
        )

    def at_times_slow(tls, choice, size):
        made[tls, size] += 1
        now_slow = (tls, size) == ("self,posix", 16) and made[tls, size] in slow
        return steady(tls, choice, size) * (times if now_slow else 1.0)

    machine = Machine(at_times_slow, seen=steady, noise=0.02)
    asked = verifier(setting_launches=12, alpha=0.01)
    verdict = asked.verdict(run(asked, machine, searched(machine)))
    assert (verdict.recommendation.point == point("self,posix")) == holds
    (only,) = (r for r in verdict.rounds if r.setting.point == point("self,posix"))
    assert only.failures.n_deployed - len(only.starts) == own


def test_what_is_surely_faster_at_one_size_alone_is_not_said_of_the_whole():
    machine = known_at_16_bytes_alone(1.5, seed=3)
    careless = verifier(margin=0.99)
    verdict = careless.verdict(run(careless, machine, searched(machine)))
    assert verdict.recommendation.point == point("self,posix")
    assert verdict.text.startswith("verified: faster at 16 B of allreduce; ")


def test_what_would_take_it_takes_it():
    machine = known_at_16_bytes_alone(0.2, seed=3)
    verdict = verifier().verdict(run(verifier(), machine, searched(machine)))
    assert verdict.recommendation.point == SPACE.default
    margin = float(re.search(r"accepted with verify.margin=([\d.]+)", verdict.text)[1])
    again = known_at_16_bytes_alone(0.2, seed=3)
    taken = verifier(margin=margin)
    assert taken.verdict(run(taken, again, searched(again))).recommendation.point == point("self,posix")


def lucky(choice, size):
    return choice == RING and size == 1024


def test_where_a_dropped_rule_leaves_the_stacks_own_calls_nothing_is_launched_again():
    def seen(tls, choice, size):  # what the search saw of ring at 1 KiB was luck
        return posix_and_ring("all", choice, size) * (0.5 if lucky(choice, size) else 1.0)

    def true(tls, choice, size):
        return posix_and_ring("all", choice, size) * (1 / 1.5 if lucky(choice, size) else 1.0)

    machine = Machine(true, seen)
    history = run(verifier(), machine, searched(machine, ("all",)))
    verdict = verifier().verdict(history)
    first = verdict.rounds[0]
    kept = verdict.recommendation.rules
    assert [choice_at(first.setting.rules, ("allreduce", 2, size)) for size in SIZES] == [Point(), RING, RING]
    assert [choice_at(kept, ("allreduce", 2, size)) for size in SIZES] == [Point(), Point(), RING]
    assert [g.ratio > 1.5 for g in verdict.recommendation.gains] == [False, False, True]
    assert all(g.ratio >= 1.0 for g in verdict.recommendation.gains)
    assert len(history.of(Phase.VERIFY)) == DESIGN.launches


def test_after_a_rule_was_dropped_only_what_changed_is_measured_again():
    """posix with ring at 1 KiB, where ring is no better than posix alone: only 1 KiB gets new evidence."""

    def seen(tls, choice, size):
        return posix_and_ring(tls, choice, size) * (0.5 if lucky(choice, size) else 1.0)

    def true(tls, choice, size):
        return posix_and_ring(tls, choice, size) * (0.96 if lucky(choice, size) else 1.0)

    machine = Machine(true, seen)
    history = run(verifier(), machine, searched(machine, ("all", "self,posix")))
    verdict = verifier().verdict(history)
    first, second = verdict.rounds
    assert choice_at(first.setting.rules, ("allreduce", 2, 1024)) == RING
    assert choice_at(second.setting.rules, ("allreduce", 2, 1024)) == Point()
    behind = {c.slot[2]: c.launches for c in second.comparisons}
    before, fresh = len(first.launches) // 2, len(second.launches) // 2
    assert behind == {16: before + fresh, 1024: fresh, 65536: before + fresh}
    assert len(first.launches) + len(second.launches) == DESIGN.launches
    assert verdict.recommendation.point == point("self,posix")
    assert verdict.recommendation.rules == second.setting.rules


def test_a_loss_that_no_dropped_rule_heals_ends_at_once_whatever_else_would_be_dropped():
    """It lost at 16 B, had a rule dropped at 1 KiB, and was launched 16 times again."""

    def seen(tls, choice, size):
        return posix_and_ring(tls, choice, size) * (0.5 if lucky(choice, size) else 1.0)

    def true(tls, choice, size):
        slower = 2.0 if (tls, size) == ("self,posix", 16) else 1.0
        return posix_and_ring(tls, choice, size) * slower

    machine = Machine(true, seen)
    history = run(verifier(), machine, searched(machine, ("all", "self,posix")))
    of_posix = [r for r in verifier().verdict(history).rounds if r.setting.point == point("self,posix")]
    assert sum(len(r.launches) for r in of_posix) <= 6 * DESIGN.each
    assert of_posix[0].lost | of_posix[0].doubtful == {("allreduce", 2, 16)}


def test_a_rule_stays_where_the_setting_would_lose_without_it():
    def mixed(tls, choice, size):  # posix needs ring to keep up with the default at 1 KiB
        if (tls, size) == ("self,posix", 1024):
            return posix_and_ring("all", DEFAULT, size) * (1.0 if choice == RING else 1.3)
        return posix_and_ring(tls, choice, size)

    machine = Machine(mixed)
    history = run(verifier(), machine, searched(machine, ("all", "self,posix")))
    verdict = verifier().verdict(history)
    assert verdict.recommendation.point == point("self,posix")
    assert choice_at(verdict.recommendation.rules, ("allreduce", 2, 1024)) == RING


def test_a_setting_that_loses_is_replaced_by_the_next_on_the_front():
    def seen(tls, choice, size):  # tcp looked best at small sizes, and good enough at large ones
        luck = (0.05 if size <= 1024 else 0.45) if tls == "self,tcp" else 1.0
        return posix_and_ring(tls, choice, size) * luck

    machine = Machine(posix_and_ring, seen)
    history = run(verifier(), machine, searched(machine))
    verdict = verifier().verdict(history)
    assert [r.setting.point["UCX_TLS"] for r in verdict.rounds][-1] == "self,posix"
    assert "self,tcp" in [r.setting.point["UCX_TLS"] for r in verdict.rounds]
    assert verdict.recommendation.point == point("self,posix")


def trade(tls, choice, size):
    """tcp is much faster than anything, but not for the smallest messages; posix is a little faster."""
    base = posix_and_ring("all", DEFAULT, size)
    return base * {"all": 1.0, "self,posix": 0.9, "self,tcp": 0.3 if size > SIZES[0] else 1.2}[tls]


def test_what_was_seen_to_lose_somewhere_waits_behind_what_was_not():
    machine = Machine(trade)
    history = run(verifier(), machine, searched(machine))
    verdict = verifier().verdict(history)
    assert [r.setting.point["UCX_TLS"] for r in verdict.rounds] == ["self,posix"]
    assert verdict.recommendation.point == point("self,posix")


def test_what_is_refused_for_one_size_says_for_which_and_what_would_take_it():
    machine = Machine(trade)  # one launch of the baseline: too few to be sure of anything beforehand
    history = run(verifier(), machine, searched(machine, ("all", "self,tcp"), baselines=1))
    verdict = verifier().verdict(history)
    assert verdict.recommendation.point == SPACE.default
    said = re.search(
        r"at 16 B of allreduce: 0\.8[34]× in mean times.*\(accepted with verify.max_loss=(0\.\d+)\)",
        verdict.text,
    )
    tolerant = verifier(max_loss=float(said[1]))
    taken = tolerant.verdict(run(tolerant, machine, searched(machine, ("all", "self,tcp"), baselines=1)))
    assert taken.recommendation.point == point("self,tcp")


def test_what_the_search_is_sure_loses_somewhere_is_never_launched_again():
    """tcp lost at 16 B in every launch of the search."""
    machine = Machine(trade)
    history = searched(machine, ("all", "self,tcp", "self,tcp", "self,tcp"))
    (slot,) = (
        verifier()
        .searched(history)
        .known.losses(next(c for c in candidates(OBJECTIVES, SPACE, history) if c.point == point("self,tcp")))
    )
    assert slot == ("allreduce", 2, 16)
    whole = run(verifier(), machine, history)
    assert point("self,tcp") not in {o.trial.point for o in whole.of(Phase.VERIFY)}


def test_one_slow_launch_of_two_is_no_sure_loss_and_a_size_that_no_setting_measured_none_either():
    """The search launched tcp twice, once slowly at 16 B; the defaults measured another size as well."""
    machine = Machine(
        lambda tls, choice, size: 1e-6 * (1 + size / 1024) * (0.8 if tls == "self,tcp" else 1.0)
    )
    history = searched(machine, ("all", "self,tcp", "self,tcp"))

    def changed(launch):
        if launch.trial.phase is Phase.BASELINE:
            last = launch.estimates[-1]
            more = replace(last, cell=replace(last.cell, message_bytes=1 << 24))
            return replace(launch, estimates=(*launch.estimates, more))
        if launch is next(o for o in reversed(history.observations) if o.trial.point == point("self,tcp")):
            late = [
                replace(e, median_s=3 * e.median_s) if e.cell.message_bytes == 16 else e
                for e in launch.estimates
            ]
            return replace(launch, estimates=tuple(late))
        return launch

    once = History(tuple(map(changed, history.observations)))
    (tcp,) = (c for c in candidates(OBJECTIVES, SPACE, once) if c.point == point("self,tcp"))
    assert not verifier().searched(once).known.losses(tcp)


def test_the_untouched_stacks_own_calls_cannot_lose_against_themselves():
    """What the sweep's launch showed of them is noise; its rule elsewhere is worth having."""

    def true(tls, choice, size):
        return 1e-6 * (1 + size / 1024) * (0.6 if choice == RING and size > 1024 else 1.0)

    def seen(tls, choice, size):
        return true(tls, choice, size) * (1.0 if choice == DEFAULT else 2.0 if size == 16 else 1.0)

    machine = Machine(true, seen=seen)
    history = searched(machine, transports=("all",))
    [*before, swept] = history.observations
    late = [
        replace(e, median_s=1.4 * e.median_s) if e.cell.message_bytes == 16 else e for e in swept.estimates
    ]
    history = History((*before, replace(swept, estimates=tuple(late))))
    (only,) = candidates(OBJECTIVES, SPACE, history)
    assert not verifier().searched(history).known.losses(only)
    best = verifier().best(history)
    assert [r.choice for r in best.rules] == [DEFAULT, RING, Point()]
    assert best.gains[0].ratio == 1.0
    verdict = verifier().verdict(run(verifier(), machine, history))
    assert verdict.text.startswith("verified")
    assert verdict.recommendation.gains[-1].ratio > 1.5


def test_a_setting_that_does_not_run_is_replaced():
    machine = Machine(posix_and_ring, broken=("self,posix",))
    history = run(verifier(), machine, searched(machine))
    verdict = verifier().verdict(history)
    assert verdict.rounds[0].loses
    assert verdict.recommendation.point == point("all")


def test_where_nothing_holds_the_default_stays():
    def seen(tls, choice, size):
        return posix_and_ring("all", DEFAULT, size) * (0.5 if tls == "self,tcp" else 1.0)

    def true(tls, choice, size):
        return posix_and_ring("all", DEFAULT, size) * (2.0 if tls == "self,tcp" else 1.0)

    machine = Machine(true, seen)
    history = run(verifier(), machine, searched(machine, ("all", "self,tcp")))
    verdict = verifier().verdict(history)
    assert verdict.recommendation.point == SPACE.default
    assert verdict.recommendation.rules == ()
    assert "nothing was better" in verdict.text
    assert len(history.of(Phase.VERIFY)) <= DESIGN.most


@pytest.mark.parametrize("times", [1.0, 1.5])
def test_rules_alone_that_do_not_hold_are_not_called_verified(times):
    """Rules leave the job as it is, so they share the untouched stack's point."""

    def seen(tls, choice, size):
        return posix_and_ring("all", DEFAULT, size) * (0.5 if choice == RING else 1.0)

    def true(tls, choice, size):
        return posix_and_ring("all", DEFAULT, size) * (times if choice == RING else 1.0)

    machine = Machine(true, seen)
    history = run(verifier(), machine, searched(machine, ("all",)))
    verdict = verifier().verdict(history)
    assert verdict.rounds[0].setting.rules
    assert verdict.checked is Checked.REFUSED
    assert verdict.recommendation == Recommendation(SPACE.untouched, ())
    assert "nothing was better" in verdict.text
    assert not verdict.lines


def test_the_phase_is_a_function_of_the_history():
    """Stopped after any launch and begun again, it makes the same launches."""
    machine = Machine(posix_and_ring, noise=0.0)
    whole = run(verifier(), machine, searched(machine))
    start = len(searched(Machine(posix_and_ring, noise=0.0)))
    for kept in range(start, len(whole)):
        again = run(verifier(), machine, History(whole.observations[:kept]))
        assert [o.trial for o in again] == [o.trial for o in whole]


def test_a_block_goes_on_as_its_first_launch_says():
    """Another seed, as another version would have, draws another order: what was begun is not drawn again."""
    machine = Machine(posix_and_ring)
    whole = run(verifier(), machine, searched(machine))
    other = replace(verifier(), seed=8)
    for begun in [o.trial for o in whole if o.trial.block_members]:
        assert len(begun.block_members) == 2 * begun.each
        for launched in range(1, len(begun.block_members)):
            so_far = History(whole.observations[: begun.number - 1 + launched])
            trial, side = other.next_trial(so_far), begun.block_members[launched]
            assert (trial.point, trial.subject, trial.rules) == (side.point, side.subject, side.rules)
            assert (trial.block, trial.block_members) == (begun.block, ())


def test_a_block_of_an_earlier_version_is_begun_anew():
    machine = Machine(posix_and_ring)
    history = searched(machine)
    begun = verifier().next_trial(history)
    former = history.plus([machine.observe(replace(begun, block_members=()))])
    trial = verifier().next_trial(former)
    assert trial.block == trial.number == len(former) + 1
    assert verifier().verdict(run(verifier(), machine, former)).text.startswith("verified")


def test_a_block_whose_setting_was_refused_is_left():
    machine = Machine(posix_and_ring, broken=("self,posix",))
    whole = run(verifier(), machine, searched(machine, ("all", "self,posix")))
    launches = whole.of(Phase.VERIFY).observations
    block = [o for o in launches if o.trial.block == launches[0].trial.number]
    assert len(block) < len(block[0].trial.block_members)
    assert not block[-1].ok  # the launch by which the setting was refused


def test_nothing_is_launched_where_the_default_itself_is_best():
    def default_best(tls, choice, size):
        return posix_and_ring("all", DEFAULT, size) * (1.0 if (tls, choice) == ("all", DEFAULT) else 2.0)

    machine = Machine(default_best)
    history = searched(machine)
    assert verifier().next_trial(history) is None
    assert verifier().verdict(history) is None


@pytest.mark.parametrize(("searched_at_16", "shown_at_16"), [(1.0, 0.85), (1.0, 0.7), (1.3, 0.7)])
def test_what_fresh_launches_show_of_a_setting_they_show_of_others_like_it(searched_at_16, shown_at_16):
    """With ucx 16 B loses, and the search saw none of it with any of its settings, or a gain (far cores)."""
    scale = ("1k", "4k", "16k", "64k", "256k")
    space = Space(
        "test",
        (
            Parameter("pml", ("ob1", "ucx"), "ob1"),
            Parameter("rndv", scale, "1k", ordered=True, when={"pml": ("ucx",)}),
            Parameter("eager", ("4k", "8k"), "4k", when={"pml": ("ob1",)}),
            Parameter("algorithm", ("default", "ring"), "default", Level.CALL, per_size=True),
        ),
    )
    slots = [("allreduce", 2, size) for size in SIZES]

    def seen(number, where, ratios, subject=Subject.SWEEP):
        phase = Phase.SEARCH if subject is Subject.SWEEP else Phase.BASELINE
        cells = [Cell(*slot, DEFAULT) for slot in slots]
        times = zip(cells, ratios, strict=True)
        estimates = tuple(Estimate(cell, 1e-6 / ratio, 1e-9, 50) for cell, ratio in times)
        return Observation(Trial(number, phase, where, subject), Status.OK, estimates)

    ucx = [space.complete({"pml": "ucx", "rndv": value}) for value in scale]
    eager = space.complete({"eager": "8k"})
    launches = [seen(n, space.default, (1, 1, 1), Subject.UNTOUCHED) for n in range(3)]
    launches += [seen(10 + n, where, (searched_at_16, 1.6, 1.6)) for n, where in enumerate(ucx)]
    history = History((*launches, seen(20, eager, (1.0, 1.0, 1.3))))
    known = Verifier(space, OBJECTIVES, DESIGN, seed=3).searched(history).known
    assert min(known.chance(where) for where in (*ucx, eager)) > 0.5
    told = [
        Comparison(slot, 8, math.log(gain), 0.01, 0, 0, SlotDecision.STILL_BETTER)
        for slot, gain in zip(slots, (shown_at_16, 1.6, 1.6), strict=True)
    ]
    after = known.after([(ucx[2], told), (ucx[4], told)])
    assert max(after.chance(where) for where in ucx) < 0.05 < 0.3 < after.chance(eager)
    assert known.after([]) is known


@pytest.mark.parametrize("n_discovered", [0, 6])
def test_the_discoverys_launches_tell_of_losses_too(n_discovered):
    """The one launch of the search is lucky at 16 B, where six launches of the discovery show a loss."""
    whole = Space(SPACE.stack, (*SPACE.job, Parameter("other", ("on", "off"), "on")), SPACE.call)

    def seen(number, phase, where, ratios, subject=Subject.SWEEP):
        cells = [Cell("allreduce", 2, size) for size in SIZES]
        estimates = (Estimate(c, 1e-6 / r, 1e-9, 50) for c, r in zip(cells, ratios, strict=True))
        return Observation(Trial(number, phase, where, subject), Status.OK, tuple(estimates))

    lucky, losing = (1.02, *[1.5] * (len(SIZES) - 1)), (0.85, *[1.5] * (len(SIZES) - 1))
    fast = {"UCX_TLS": "self,posix"}
    launches = [
        seen(n, Phase.BASELINE, SPACE.default, [1.0] * len(SIZES), Subject.UNTOUCHED) for n in range(3)
    ]
    discovered = [seen(10 + n, Phase.DISCOVERY, whole.complete(fast), losing) for n in range(n_discovered)]
    discovered.append(seen(20, Phase.DISCOVERY, whole.complete({**fast, "other": "off"}), losing))
    found = seen(30, Phase.SEARCH, SPACE.complete(fast), lucky)
    history = History((*launches, *discovered, found))
    told = replace(verifier(), whole=whole).searched(history)
    ((_, _, n_launches),) = told.prevailing.rows
    assert n_launches == n_discovered + 1  # the launch with a value that the search leaves alone is none
    assert bool(told.prevailing.losses(told._candidates[-1])) == (n_discovered > 0)


def test_what_lost_its_chance_in_a_round_gives_way_to_what_promises_more():
    """posix is twice as fast but for a loss at 16 B that is too small to be sure of; the search was lucky."""

    def true(tls, choice, size):
        at_16 = {"all": 1.0, "self,posix": 1.08, "self,tcp": 1.0}
        beyond = {"all": 9.0, "self,posix": 4.0, "self,tcp": 6.0}
        return (1.5 if choice == RING else 1.0) * 1e-6 * (at_16 if size == 16 else beyond)[tls]

    def lucky(tls, choice, size):
        return true(tls, choice, size) / (1.13 if (tls, size) == ("self,posix", 16) else 1.0)

    machine = Machine(true, seen=lucky, noise=0.03)
    history = run(verifier(), machine, searched(machine))
    rounds = verifier().verdict(history).rounds
    assert [r.setting.point for r in rounds[:2]] == [point("self,posix"), point("self,tcp")]
    assert verifier().verdict(history).recommendation.point == point("self,tcp")


def test_no_round_is_kept_for_what_promises_less_by_now_however_much_it_gains():
    """posix gains more than tcp and loses 6 % at 16 B, of which rounds as noisy as these cannot be sure."""

    def true(tls, choice, size):
        at_16 = {"all": 1.0, "self,posix": 1.06, "self,tcp": 0.97}
        beyond = {"all": 9.0, "self,posix": 5.0, "self,tcp": 7.5}
        return (1.5 if choice == RING else 1.0) * 1e-6 * (at_16 if size == 16 else beyond)[tls]

    def lucky(tls, choice, size):
        return true(tls, choice, size) / (1.1 if (tls, size) == ("self,posix", 16) else 1.0)

    machine = Machine(true, seen=lucky, noise=0.04, seed=10)
    history = run(verifier(), machine, searched(machine))
    verdict = verifier().verdict(history)
    assert {round_.setting.point for round_ in verdict.rounds} == {point("self,posix"), point("self,tcp")}
    assert verdict.recommendation.point == point("self,tcp")
