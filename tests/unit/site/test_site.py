"""``conf=site`` on the simulated cluster: jobs, resuming, files, the page; and what it refuses."""

import json
import os
import shutil
from dataclasses import replace
from itertools import product
from pathlib import PurePath

import pytest

from autotune.campaign.directory import CampaignDirectory
from autotune.cli import main
from autotune.exporters import exporter
from autotune.history.events import State
from autotune.history.folder import WISHES
from autotune.history.journal import locked
from autotune.history.lookup import choice_at, last_up_to
from autotune.history.trial import Rule
from autotune.lint.explained import explained
from autotune.recommend.other_calls import OtherCall, OtherDecision
from autotune.site.abstention import Decision
from autotune.site.directory import Sample, SiteDirectory, read_site
from autotune.site.files import recommendation_of
from autotune.site.load import LoadedSlot, UnderLoad
from autotune.site.transfer import Shape
from autotune.site.verb import status_text
from autotune.space import Point
from autotune.stacks.asked import Asked
from autotune.stacks.fixed_rules import fixed_algorithm
from autotune.structure import plain
from tests.schemas import answer

SMALL = (
    *("hydra/launcher=simulated", "site.nodes=[1,2]", "site.ppn=[4]", "site.collectives=[allreduce,bcast]"),
    *("sizes=[8,1k,64k]", "budget.launches=4", "verify.enabled=false", "simulate.at_once=false"),
)


def words(directory, *more):
    return ["conf=site", f"campaign.dir={directory}", *SMALL, *more]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site") / "mine"
    assert main(words(directory, "--quiet")) == 0
    return directory


def test_each_job_is_a_campaign_and_all_have_one_set_of_files(made, tmp_path, capsys):
    assert sorted(p.name for p in (made / "jobs").iterdir()) == ["1x4", "2x4"]
    text = (made / "export/coll_tuned_rules.conf").read_text()
    assert "# rules know ranks, not nodes: measured on 1 node, 2 nodes, they hold on all\n" in text
    assert main(["status", str(made), "--json"]) == 0
    told = answer(capsys.readouterr().out)
    states = [(j["nodes"], j["ppn"], j["state"]) for j in told["jobs"]]
    assert states == [(1, 4, "complete"), (2, 4, "complete")]
    assert told["node_hours"] > 0
    assert main(["status", str(made), "--watch"]) == 0  # which ends with the site
    assert "2 × 4 ranks: complete" in capsys.readouterr().out
    assert main(["export", str(made), "--out", str(tmp_path / "out")]) == 0
    assert str(tmp_path / "out") in capsys.readouterr().out
    assert main(["report", str(made), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<table>") == 2
    assert "allreduce, 4 ranks a node" in page


def test_a_complete_site_launches_nothing_more_and_writes_files_that_are_gone(made, capsys):
    journals = {p: p.read_bytes() for p in made.glob("jobs/*/journal.jsonl")}
    written = {p.name for p in (made / "export").iterdir()}
    shutil.rmtree(made / "export")
    assert main(words(made)) == 0
    assert {p: p.read_bytes() for p in made.glob("jobs/*/journal.jsonl")} == journals
    assert {p.name for p in (made / "export").iterdir()} == written
    assert "1 × 4 ranks: complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("site.nodes=[2]", "nodes=[1, 2]"),
        ("site.ppn=[2]", "ppn=[4]"),
        ("sizes=[8]", "sizes=[8, 1024, 65536]"),
        ("site.collectives=[bcast]", 'collectives=["allreduce", "bcast"]'),
    ],
)
def test_other_wishes_need_another_directory(word, kept, made, capsys):
    assert main(words(made, word)) == 2
    assert f"holds a site with other wishes: {kept}\n" in capsys.readouterr().err


@pytest.mark.parametrize("more", ["site.nodes=[1,2,4]", "site.ppn=[2,4]"])
def test_a_site_grows_by_further_jobs_and_keeps_those_that_it_has(more, made, tmp_path, capsys):
    grown = tmp_path / "site"
    shutil.copytree(made, grown)
    journals = {p: p.read_bytes() for p in grown.glob("jobs/*/journal.jsonl")}
    assert main(words(grown, more, "--quiet")) == 0
    assert "further jobs: " in capsys.readouterr().out
    assert {path: path.read_bytes() for path in journals} == journals
    site = read_site(grown)
    assert len(site.wishes.jobs) > len(journals)
    assert set(site.campaigns) == set(site.wishes.jobs)
    assert all(one.state is State.COMPLETE for one in site.campaigns.values())
    assert main(words(grown)) == 2  # it does not shrink again


def test_an_unfinished_job_of_a_site_that_grows_measures_what_it_measured_before(tmp_path, capsys):
    """A smaller job was asked for since, whose table would now serve one of its communicators."""
    site = tmp_path / "site"
    assert main(words(site, "site.nodes=[4]", "--quiet")) == 0
    journal = site / "jobs/4x4/journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if '"event":"observation"' in line.replace(" ", ""))
    journal.write_text("".join(lines[: last - 1]))  # as if killed in its last launch
    before = read_site(site).campaigns[4, 4]
    assert before.state is not State.COMPLETE
    assert main(words(site, "site.nodes=[1,2,4]", "--quiet")) == 0
    after = read_site(site).campaigns[4, 4]
    assert after.about.scenario.cluster == before.about.scenario.cluster
    assert after.history.observations[: len(before.history)] == before.history.observations
    assert after.state is State.COMPLETE


def test_a_budget_of_node_hours_leaves_large_jobs_to_prediction(tmp_path, capsys):
    few = words(tmp_path, "site.nodes=[1,2,64]", "budget.node_hours=0.02")
    assert main(["plan", *few]) == 0
    planned = capsys.readouterr().out
    assert planned.count("measured") == 2
    assert "predicted, or left to the library" in planned
    assert main([*few, "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "64 × 4 ranks: not measured; 0 of 6 slots predicted" in told
    assert "too few node counts" in told


def test_files_leave_a_job_alone_that_was_not_measured_though_another_one_has_as_many_ranks(made):
    site = read_site(made)
    assert {rule.comm_size for rule in recommendation_of(site).rules if rule.sets} == {2, 4, 8}
    wider = replace(site, wishes=replace(site.wishes, ppn=(4, 8)))  # 1 × 8 beside 2 × 4
    assert {rule.comm_size for rule in recommendation_of(wider).rules if rule.sets} == {2, 4}


@pytest.mark.parametrize("asked", [False, True])
def test_predicted_rules_are_in_the_files_where_somebody_asked_for_them(asked, made):
    site = read_site(made)
    name = next(name for name, choice in site.choices.items() if Rule("bcast", 32, 0, choice).sets)
    wishes = replace(site.wishes, nodes=(1, 2, 8), predicted=asked)
    site = replace(site, wishes=wishes)
    site.__dict__["decided"] = [Decision(Shape("bcast", 8, 4, 8), name, gain=0.5, low=0.1)]
    found = recommendation_of(site)
    assert (32 in {rule.comm_size for rule in found.rules if rule.sets}) == asked
    assert ("1 predicted" in found.provenance.verified) == asked
    (said,) = (line for line in status_text(site).splitlines() if "the files" in line and "8 × 4" in line)
    assert "UNVERIFIED" in said
    assert ("site.predicted=true" in said) != asked


def test_whether_files_have_predictions_may_be_asked_later(made, tmp_path, capsys):
    site = tmp_path / "site"
    shutil.copytree(made, site)
    for asked in (True, False):
        assert main(words(site, "--quiet", f"site.predicted={asked}")) == 0
        assert read_site(site).wishes.predicted == asked
        assert "further jobs" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("site.nodes=[0]", "site.nodes"),
        ("site.collectives=[alreduce]", "allreduce"),
        ("site.nod=[1]", "site.nod"),
        ("site.memory_gib=1e-5", "sizes up to 1024 fit"),
        ("site.setting=worst", "site.setting=worst"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(word, said, tmp_path, capsys):
    assert main(["plan", *words(tmp_path / "none", word)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("verb", [[], ["measure"]], ids=["tune", "measure"])
@pytest.mark.parametrize(
    ("launcher", "nodes", "said"),
    [("mpirun", "[1]", "4096 ranks, but "), ("simulated", "[2,4]", "4096 ranks per node on bm_op")],
)
def test_a_job_of_more_ranks_than_cores_is_refused_before_a_smaller_one_is_measured(
    verb, launcher, nodes, said, tmp_path, capsys
):
    here = (f"hydra/launcher={launcher}", f"site.nodes={nodes}", "site.ppn=[2,4096]", "site.memory_gib=1e6")
    assert main([*verb, *words(tmp_path / "none", *here)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_other_verbs_refuse_a_whole_site(tmp_path, capsys):
    assert main(["calibrate", *words(tmp_path)]) == 2
    assert "whole site" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["history", "verify", "compare", "winners"])
def test_a_verb_of_one_campaign_says_where_a_site_has_them(verb, made, capsys):
    assert main([verb, str(made)]) in (2, 3)
    told = capsys.readouterr().err
    assert "whole site" in told
    assert str(made / "jobs") in told


def test_two_do_not_make_a_site_at_once(made, capsys):
    held = locked(made, WISHES)
    try:
        assert main(words(made)) == 4
    finally:
        os.close(held)
    assert "another process" in capsys.readouterr().err


def test_a_site_is_not_begun_afresh(tmp_path, capsys):
    assert main(words(tmp_path / "site", "campaign.fresh=true")) == 2
    assert "campaign.fresh" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_a_sample_says_how_the_predictions_did(made, tmp_path, monkeypatch, capsys):
    """Written as it is before its job is measured: of two predictions one is far off."""
    site = tmp_path / "site"
    shutil.copytree(made, site)
    found = read_site(site).measured
    slow, right = [m for m in found if m.shape.nodes == 2 and m.choice][:2]
    planted = [replace(m, time_s=99 * m.time_s) if m is slow else m for m in found]
    monkeypatch.setattr(SiteDirectory, "measured", planted)
    predicted = tuple(Decision(m.shape, m.choice, gain=0.5, low=0.1) for m in (slow, right))
    (site / "sample.json").write_text(json.dumps(plain(Sample((2, 4), 1.645, predicted))))
    assert main(["status", str(site), "--json"]) == 0
    told = answer(capsys.readouterr().out)["sample"]
    assert told.startswith("sample: of 2 predictions for 2 × 4 ranks 1 proved more than 5% slower")
    assert main(["report", str(site), "--out", str(tmp_path / "page.html")]) == 0
    assert told in (tmp_path / "page.html").read_text()


def test_a_sample_that_was_handed_to_a_job_or_interrupted_is_measured_all_the_same(
    made, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("autotune.site.verb.upcoming", lambda *_: None)  # no node-hours for a whole job
    site = tmp_path / "site"
    shutil.copytree(made, site)
    shutil.rmtree(site / "jobs/2x4")
    shape = next(m.shape for m in read_site(made).measured if m.shape.nodes == 2)
    drawn = Sample((2, 4), 1.645, (Decision(shape, "x", gain=0.5, low=0.1),))
    (site / "sample.json").write_text(json.dumps(plain(drawn)))
    for again in (False, True):
        assert main(words(site, "--quiet")) == 0
        assert capsys.readouterr().out.count("a sample of what is predicted") == (not again)
        campaign = read_site(site).campaigns[2, 4]
        assert (campaign.state, len(campaign.history)) == (State.COMPLETE, 2)
    assert json.loads((site / "sample.json").read_text()) == plain(drawn)


def test_ucc_s_sections_give_each_team_of_a_site_its_rules(made):
    """UCC runs nowhere here: its names are put into a site's rules, and what reads its file is our own."""
    found, teams = recommendation_of(read_site(made)), {2: 1, 4: 1, 8: 2}
    names = {"allreduce": ("knomial", "sra_knomial"), "bcast": ("knomial", "sag_knomial")}
    rules = tuple(
        replace(r, choice=Point.of({"ucc_algorithm": names[r.collective][n % 2]}) if r.sets else Point())
        for n, r in enumerate(found.rules)
    )
    assert {rule.comm_size for rule in rules if rule.sets} == teams.keys()
    text = exporter("ucc_conf").export(replace(found, rules=rules), made)["ucc.conf"]
    for name, ranks, size in product(names, teams, (8, 1024, 65536)):
        call = Asked(name, ranks, size, ranks // teams[ranks])
        answer = explained(PurePath("ucc.conf"), text, call, "openmpi5", {}.get, fixed_algorithm)
        wanted = choice_at(rules, (name, ranks, size)).get("ucc_algorithm", "")
        assert answer.algorithm == wanted, (name, ranks, size)


def test_jobs_measure_the_communicators_that_no_smaller_job_s_tables_reach(tmp_path):
    def measured(name, *more):
        assert main(words(tmp_path / name, "site.nodes=[1,4]", "--quiet", *more)) == 0
        site = read_site(tmp_path / name)
        cells = {job: [e.cell for o in one.history for e in o.usable] for job, one in site.campaigns.items()}
        return site, {job: {cell.comm_size for cell in mine} for job, mine in cells.items()}

    site, sizes = measured("site")
    assert sizes == {(1, 4): {2, 4}, (4, 4): {8, 16}}  # of 4 ranks a table holds below 8
    rules = recommendation_of(site).rules
    assert {rule.comm_size for rule in rules} >= {2, 4, 8, 16}
    assert {rule.comm_size for rule in rules if rule.sets} <= {2, 4, 8, 16}
    assert len({(r.collective, r.comm_size, r.min_bytes) for r in rules}) == len(rules)
    of_jobs = {rule for one in site.recommended.values() for rule in one.rules}
    assert {plainly for rule in rules if (plainly := without_component(rule)).sets} <= of_jobs
    assert measured("whole", "site.within=false")[1] == {(1, 4): {4}, (4, 4): {16}}
    assert measured("named", "cluster.comm_sizes=[2,4]")[1] == {(1, 4): {2, 4}, (4, 4): {2, 4}}


def without_component(rule):
    return replace(rule, choice=Point.of({k: v for k, v in rule.choice.items() if k != "component"}))


def planted(directory, factor, *more):
    """A site on several nodes of which another component than the library's is asked."""
    knobs = f"simulate.knobs={{component: {{tuned: {factor}}}}}"
    wide = ("site.nodes=[1,2,4]", "sizes=[8,256k]", "verify.enabled=true", "verify.launches=8")
    assert main(words(directory, *wide, knobs, "--quiet", *more)) == 0
    return read_site(directory)


def test_rules_that_need_a_job_wide_value_get_it_with_the_files(wide):
    site = read_site(wide)
    assert dict(site.common) == {"component": "tuned"}
    assert not site.separate
    found = recommendation_of(site)
    assert "OMPI_MCA_coll_han_priority" not in dict(found.provenance.env)
    parameters = (wide / "export/openmpi-mca-params.conf").read_text()
    assert "coll_han_priority" not in parameters
    assert "coll_han_use_dynamic_file_rules = 1" in parameters
    handed = {(r.collective, r.comm_size) for r in found.rules if r.choice.get("component") == "tuned"}
    assert handed >= {(name, ranks) for name in ("allreduce", "bcast") for ranks in (8, 16)}
    assert {ranks for _, ranks in handed} <= {4, 8, 16} | {ranks // 2 for ranks in (4, 8, 16)}


@pytest.mark.parametrize(
    ("collective", "ranks", "size", "handed"),
    [
        ("allreduce", 8, 8, True),
        ("bcast", 16, 256 << 10, True),
        ("allreduce", 8, 4 << 20, False),  # larger than all that was measured
        ("allreduce", 12, 8, False),  # of three nodes
        ("bcast", 32, 8, False),  # of eight
        ("reduce", 8, 8, False),  # which nobody asked for
        ("barrier", 16, 0, False),
    ],
)
def test_files_of_a_site_take_no_call_from_han_that_was_not_measured(collective, ranks, size, handed, wide):
    rows = han_file(wide / "export" / "coll_han_rules.conf")
    table = last_up_to(rows.get(collective, {1: {0: "han"}}), ranks)
    assert (last_up_to(table, size) == "tuned") == handed, rows


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A site on one, two and four nodes whose jobs all gain by another component than the library's."""
    directory = tmp_path_factory.mktemp("wide") / "site"
    planted(directory, 0.4)
    return directory


def han_file(path):
    """Collective → ranks → bytes → component, as Open MPI reads the level of the whole communicator."""
    lines = path.read_text().splitlines()
    numbers = iter([word for line in lines for word in line.partition("#")[0].split()])
    found = {}
    for _ in range(int(next(numbers))):
        name = next(numbers)
        for _ in range(int(next(numbers))):
            assert int(next(numbers)) == 2
            sizes = {}
            for _ in range(int(next(numbers))):
                ranks = int(next(numbers))
                rows = [(int(next(numbers)), next(numbers)) for _ in range(int(next(numbers)))]
                sizes[ranks] = dict(rows)
            assert min(sizes) == 1
            assert all(min(rows) == 0 for rows in sizes.values())
            found[name] = sizes
    assert not [*numbers]
    return found


def test_the_component_of_the_library_stays_where_it_is_best(tmp_path):
    site = planted(tmp_path / "site", 3)
    assert not site.common
    assert not site.separate
    assert not any("han" in name for name, _ in recommendation_of(site).provenance.env)


def test_a_rule_that_loses_under_load_is_the_librarys_there_and_said_so(tmp_path, monkeypatch, capsys):
    """Planted: what was best alone loses beside the command, at small messages."""
    asked = []

    def observed(command, setting, one, scenario, place, folder):
        asked.append((command, folder.is_dir(), [(r.collective, r.min_bytes) for r in one.rules if r.sets]))
        slots = ((g, g.slot[2] == 8) for g in one.gains)
        lost = (LoadedSlot(g.slot, g.ratio, -0.5 if loses else 0.1, loses) for g, loses in slots)
        return UnderLoad(setting, tuple(lost), took_s=3600)

    monkeypatch.setattr("autotune.site.verb.compare_under_load", observed)
    more = ("site.under_load=load the net", "site.nodes=[1]", "site.within=false", "--quiet")
    assert main(words(tmp_path, *more)) == 0
    assert asked == [("load the net", True, [("bcast", 4)])]
    (kept,) = (rule for rule in recommendation_of(read_site(tmp_path)).rules if rule.sets)
    assert kept.collective == "bcast"
    assert 8 < kept.min_bytes <= 1024
    assert read_site(tmp_path).node_hours > 1
    said = capsys.readouterr().out
    assert "1 × 4 ranks: under load allreduce of 8 B on 4 ranks" in said
    assert "bcast of 8 B on 4 ranks 1.26× alone and 0.61×: the library decides there" in said
    assert main(words(tmp_path, *more)) == 0
    assert len(asked) == 1


def test_a_job_wide_setting_that_loses_under_load_is_not_taken(tmp_path, monkeypatch):
    def observed(command, setting, one, *_):
        slots = (LoadedSlot(g.slot, g.ratio, -0.5, bool(setting)) for g in one.gains)
        return UnderLoad(setting, tuple(slots), took_s=1)

    monkeypatch.setattr("autotune.site.verb.compare_under_load", observed)
    site = planted(tmp_path / "site", 0.4, "site.under_load=load")
    assert not site.common
    assert not site.separate
    assert {one.setting for by in site.loads.values() for one in by.found} == {"component=tuned", ""}


SLOW = OtherCall("pingpong", 8192, 1e-6, 1.7e-6, 0.6, 0.57, 0.63, 0.02, 0.58, OtherDecision.SLOWER)


def slowing(monkeypatch, *jobs):
    """Have these jobs' recommended settings slow other calls; they have no other verified one."""
    concluded = CampaignDirectory.conclude

    def planted(campaign):
        found = concluded(campaign)
        if campaign.path.name not in jobs:
            return found
        best = found.choices[0]
        slow = replace(best, recommendation=replace(best.recommendation, others=(SLOW,)))
        return replace(found, choices=(slow, *found.choices[1:]), recommendation=slow.recommendation)

    monkeypatch.setattr(CampaignDirectory, "conclude", planted)


def test_a_job_whose_setting_slows_other_calls_keeps_the_defaults_and_says_so(made, monkeypatch, capsys):
    assert any(rule.sets for rule in read_site(made).recommended[2, 4].rules)
    slowing(monkeypatch, "2x4")
    site = read_site(made)
    assert not site.recommended[2, 4].rules
    assert site.recommended[2, 4].provenance.env == ()
    assert any(rule.sets for rule in site.recommended[1, 4].rules)
    assert main(["status", str(made)]) == 0
    said = capsys.readouterr().out
    assert "2 × 4 ranks: not taken (site.setting=best takes it): recommended: " in said
    assert "slower, 0.60× (0.57 … 0.63) at 8192 B of pingpong" in said
    assert "1 × 4 ranks: not taken" not in said


def test_a_site_takes_what_slows_other_calls_where_that_is_asked_for(made, tmp_path, monkeypatch, capsys):
    shutil.copytree(made, tmp_path / "site")
    slowing(monkeypatch, "2x4")
    assert main(words(tmp_path / "site", "site.setting=best")) == 0
    assert "2 × 4 ranks: taken: recommended: " in capsys.readouterr().out
    site = read_site(tmp_path / "site")
    assert site.wishes.setting == "best"
    assert any(rule.sets for rule in site.recommended[2, 4].rules)
    assert "it makes other calls slower, 0.60×" in recommendation_of(site).provenance.verified
