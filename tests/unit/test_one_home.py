"""One scheduler of launches in turn, one prior of their noise, and the modules that decide what is slower.

Every table is exact: a module that starts to draw an order, to assume a spread of launches or to test has to
be entered here with its reason, or rather to use what there is.
"""

import ast
import io
import re
import tokenize

import pytest

from tests.unit.test_architecture import MODULES

SCHEDULER = "campaign.turns"
"""Who runs beside whom, in which order, at once or not, and until when."""

SCHEDULED = {
    "application.verbs.diagnose": "settings beside the default, each once",
    "application.verbs.verify": "runs of an application, which it starts itself",
    "commands.tune": "the trials that a campaign's strategy chose",
    "commands.verify": "a recommendation beside a reference until every slot is decided; also under load",
    "guard.heats": "what was kept beside the present state; the environments of a bisection",
}
"""Who launches by the scheduler's functions, and what."""

ORDERS = "verification.orders"
"""The draw of a block's order, a function of history and seed, so that a verification can be replayed."""

DRAWING = {ORDERS: {SCHEDULER, "verification.rounds"}}
"""Owner of the draw → who may ask it for an order."""

SHUFFLING = {
    ORDERS: "the launches of a block",
    "campaign.observing": "the parts of one trial: launches that sweep different choices of one setting",
    "launchers._replay": "which recorded launch is shown next",
    "probe.heat": "the sizes within a turn of a job",
    "probe.sweep": "the cells of one launch",
    "probe.tight": "the cells of one launch",
    "probe.turns": "the jobs of one heat, sample by sample",
    "proposers.curve": "candidates, of which the first equal one is taken",
    "proposers.ofat": "the parameters of a round",
    "screening.design": "the runs of a design",
    "screening.discovery.design": "the runs of a discovery, and half of what is suspected",
    "screening.discovery.fit": "a permutation test of a joint fit",
    "space.space": "points of a space",
}
"""Modules that put anything into a random order, and what."""

AT_ONCE = {
    SCHEDULER: "launches of different settings",
    "campaign.heats": "the processes of one heat",
    "campaign.loop": "the scheduler's function, as ``commands.tune`` gives it",
    "launchers._mpirun": "the launcher's own",
    "launchers._processes": "the launcher's own",
    "launchers._slurm_inside": "the launcher's own",
    "launchers._slurm_trial": "the launcher's own",
}
"""Modules that have several launches alive at once."""

PRIOR = "measure.launch_spread"
"""What is assumed of differences between launches of one setting."""

ASSUMING = {
    "campaign.needed": "usual_sd",  # the forecast of a verification before launches were repeated
    "proposers.acquisition": "largest_sd",  # a single launch's luck
    "proposers.curve_model": "largest_sd",  # the noise at a single size
    "recommend.guideline_test": "largest_sd",  # a claim may rest on it alone
    "recommend.posterior": "largest_sd",  # of few settings, which no model is fitted to
    "recommend.process": "largest_sd",  # the start of a fit
    "recommend.repeats": "usual_sd cell_sd",  # a prior that counts as four launches
    "site.transfer": "largest_sd",  # a choice may rest on it alone
}
"""Readers of the prior → what they read."""

OTHER_SPREADS = {
    "recommend.repeats._DISTURBED": "a difference by which one of two launches was disturbed",
    "proposers.acquisition.sure": "a loss that no noise is as large as",
    "verification.planned.LEAST_SCALE": "keeps a division from being one by zero",
    "proposers.acquisition.slack": "a loss that a searched setting may show and still be a rival",
    "simulate.noise.launch": "the noise that a simulated machine has",
    "simulate.noise.within": "the noise that a simulated machine has, between calls",
}
"""Constants whose description speaks of noise or launches' spread, but which are other quantities."""

SLOWER = {
    "verification.planned": "of two settings by the order of their launches, group-sequentially: the test",
    "verification.comparison": "claims on slots, all by ``planned`` and ``mean_ratio``",
    "verification.mean_ratio": "a loss of the mean that is not excluded: medians show no rare slow launch",
    "verification.other_calls": "other calls, with one mean for each launch: Student's interval",
    "verification.interruptions": "whether calls are interrupted more often: ranks within blocks",
    "verification.known": "before any fresh launch: what the search's launches say",
    "verification.course": "whether further launches could change a decision",
    "verification.forecast": "what they are expected to show",
    "verification.evidence": "of two sides, over nights without an end, for which no plan is made: e-values",
    "guard.nights": "of nights, where no order of launches was drawn across them",
    "recommend.guideline_test": "of two calls in the same launches: no order was drawn between calls",
    "tables.two_logs": "of two logs of anybody, whose order is not known: Welch's test",
    "application.reach": "of runs of an application: an interval of a trimmed mean",
    "application.floor": "how lucky the fastest of several settings was",
}
"""Modules that decide on times by statistics, each with what the others cannot answer."""

FAILING = {"verification.failed": "whether a setting fails more often (Fisher), and excluded rates (Clopper)"}
"""Modules that decide on failures by statistics."""

NO_COMPARISON = {
    "doe.by_hand": "designs of anybody's experiment",
    "doe.regression": "models of anybody's table",
    "doe.surface": "response surfaces of anybody's experiment",
    "measure.location": "the interval of one cell's samples, and the usual variance of groups",
    "measure.rows": "the interval of one cell's samples",
    "recommend.posterior": "the expected gain of a launch",
    "screening.analysis": "effects of factors on a response",
    "screening.discovery.fit": "effects of factors on many responses",
    "screening.effects": "effects of factors on a response",
    "screening.noise": "the error of a design",
    "site.abstention": "the value of measuring a shape",
    "verification.sequential": "the number of launches that excludes a loss",
}
"""Modules that use distributions for something else than a decision between settings."""

DISTRIBUTIONS = ("scipy.stats", "scipy.special", "statistics.NormalDist")


def calls_of(module):
    """Return the last words of all calls in a module."""
    names = (ast.unparse(node.func) for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    return {name.rpartition(".")[2] for name in names}


def modules_that_call(*names):
    return {module.name for module in MODULES if calls_of(module) & set(names)}


def importing(owner):
    return {
        module.name for module in MODULES if any(f".{owner}." in f".{name}" for name, _ in module.imports)
    }


def test_one_module_launches_sides_in_turn():
    assert importing(SCHEDULER) - {"guard.before", "guard.bisect", "site.load"} == set(SCHEDULED)
    assert modules_that_call("observe_heat", "run_at_once") == set(AT_ONCE)


def test_sides_and_turns_are_all_that_others_take_from_the_scheduler():
    for name in ("guard.before", "guard.bisect", "site.load"):
        (module,) = (module for module in MODULES if module.name == name)
        taken = {dotted.rpartition(".")[2] for dotted, _ in module.imports if f".{SCHEDULER}." in dotted}
        assert taken <= {"Side", "Turn", "are_heats"}


def test_one_module_draws_the_order_of_a_block():
    assert {owner: importing(owner) for owner in DRAWING} == DRAWING
    assert modules_that_call("permutation", "permuted", "shuffle", "shuffled") == set(SHUFFLING)


def test_one_prior_says_how_far_launches_lie_apart():
    read = {
        module.name: set(re.findall(r"LAUNCH_SPREAD\.(\w+)", module.text))
        for module in MODULES
        if module.name != PRIOR and "LAUNCH_SPREAD" in module.text
    }
    assert read == {name: set(fields.split()) for name, fields in ASSUMING.items()}


def described_shares(module):
    """Yield the names of constants between 0 and 0.2 in a module, each with its comment and docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    for node in ast.walk(module.tree):
        body = getattr(node, "body", None)
        for statement, after in zip(body, [*body[1:], None], strict=True) if isinstance(body, list) else ():
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=float(value))):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=float(value))):
                    pass
                case _:
                    continue
            text = comments.get(statement.lineno, "")
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text += str(after.value.value)
            if 0 < value < 0.2:
                yield f"{module.name}.{name}", " ".join(text.split())


def test_no_other_constant_is_a_spread_of_launches():
    speaking = re.compile(r"noise|(deviation|spread)\b.*(launch|measurement)|launches.*(apart|differ)")
    others = {
        name
        for module in MODULES
        if module.name != PRIOR
        for name, text in described_shares(module)
        if speaking.search(text)
    }
    assert others == set(OTHER_SPREADS)


def test_what_is_slower_or_fails_more_often_is_decided_where_these_tables_say():
    tables = (SLOWER, FAILING, NO_COMPARISON)
    users = {
        module.name
        for module in MODULES
        if any(name.startswith(DISTRIBUTIONS) or name == "scipy.stats" for name, _ in module.imports)
    }
    assert users <= {name for table in tables for name in table}, "another module tests"
    by_others = {"verification.evidence"}  # counts orders itself
    assert {name for table in tables for name in table} - users == by_others


@pytest.mark.parametrize("name", ["binom", "hypergeom", "fisher_exact", "barnard_exact", "boschloo_exact"])
def test_failures_are_tested_in_one_module(name):
    users = {m.name for m in MODULES if any(dotted == f"scipy.stats.{name}" for dotted, _ in m.imports)}
    assert users <= set(FAILING)


def test_statistics_that_several_tests_need_are_written_once():
    for name in ("weighted_median", "n_significant", "excludes_rate", "median"):
        defining = [
            module.name
            for module in MODULES
            for node in module.tree.body
            if isinstance(node, ast.FunctionDef) and node.name == name
        ]
        # That of `measure.rows` is for ranks, which load no numpy; the other one is for arrays with gaps.
        assert len(defining) == (2 if name == "median" else 1), defining
