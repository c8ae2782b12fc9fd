"""``screen``: a design by hand, and the response surface of anybody's table."""

import csv
from io import StringIO

import numpy as np
import pytest

from autotune.cli import main
from tests.schemas import answer


@pytest.fixture
def factors(tmp_path):
    path = tmp_path / "factors.csv"
    path.write_text("factor,low,high,centre\ntls,sm,tcp,\nrndv,1k,64k,8k\nhan,off,on,\n")
    return path


@pytest.fixture
def bowl(tmp_path):
    """Latency is least at a = 64k · 0.6, b = 3; bandwidth grows with b."""
    path = tmp_path / "bowl.csv"
    rng = np.random.default_rng(0)
    rows = [
        (f"{a}k", b, 10 + (a / 64 - 0.6) ** 2 * 40 + (b - 3) ** 2 + rng.normal(0, 0.02), 5 + b)
        for a in (0, 16, 32, 48, 64)
        for b in (1, 2, 4, 6)
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "latency", "bandwidth"), *rows, ("16k", 2, "", "")])
    return path


def told(capfd, *words):
    code = main(["screen", *map(str, words)])
    out, err = capfd.readouterr()
    return code, out, err


def test_a_run_table_goes_through_the_analysis(factors, tmp_path, capfd):
    table = tmp_path / "runs.csv"
    words = ["--design", 12, "--factors", factors, "--blocks", 2, "--centre-points", 1]
    code, out, _ = told(capfd, *words, "--responses", "latency:min", "--out", table)
    assert (code, out) == (0, f"{table}\n")
    rows = list(csv.DictReader(StringIO(table.read_text())))
    assert list(rows[0]) == ["run", "block", "tls", "rndv", "han", "latency"]
    assert len(rows) == 26
    assert {row["block"] for row in rows} == {"1", "2"}
    assert [row["rndv"] for row in rows].count("8k") == 2
    rng = np.random.default_rng(0)
    for row in rows:
        row["latency"] = 5 + 2 * (row["tls"] == "tcp") + rng.normal(0, 0.1)
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    analysed = ["--factors", "tls,rndv,han", "--responses", "latency:min", "--block", "block", "--json"]
    code, out, _ = told(capfd, table, *analysed)
    effects = {e["factor"]: e for e in answer(out)["responses"]["latency"]["effects"]}
    assert effects["tls"]["effect"] == pytest.approx(2, abs=0.2)
    assert [name for name, effect in effects.items() if effect["active"]] == ["tls"]


def test_the_table_and_its_power_do_not_mix(factors, capfd):
    words = ["--design", 8, "--factors", factors, "--sigma", 0.2, "--effect", 0.5]
    code, out, err = told(capfd, *words)
    assert code == 0
    assert len(list(csv.DictReader(StringIO(out)))) == 8
    assert "power for an effect of 0.5" in err
    document = answer(told(capfd, *words, "--json")[1])
    assert len(document["runs"]) == 8
    power, seen = document["sensitivity"]["power"]["tls"], document["sensitivity"]["detectable"]["tls"]
    assert (power > 0.8) == (seen < 0.5)
    again, other = told(capfd, *words)[1], told(capfd, *words, "--seed", 1)[1]
    assert again == out != other


def test_the_overlaid_optimum_lies_between_those_of_the_responses(bowl, capfd):
    words = [bowl, "--surface", "a,b", "--desirability"]
    code, out, _ = told(capfd, *words, "latency:min:1,bandwidth:max:1.5", "--json")
    assert code == 0
    report = answer(out)
    latency, bandwidth = (report["surfaces"][name]["optimum"] for name in ("latency", "bandwidth"))
    assert latency["at"] == pytest.approx({"a": 0.6 * 65536, "b": 3}, rel=0.03)
    assert latency["value"] == pytest.approx(10, abs=0.1)
    assert bandwidth["at"]["b"] == 6
    assert bandwidth["at_edge"] == ["b"]
    overlay = report["overlay"]
    assert overlay["at"]["a"] == pytest.approx(latency["at"]["a"], rel=0.01)
    assert 3 < overlay["at"]["b"] < 6
    each = overlay["responses"]
    total = each["latency"]["desirability"] * each["bandwidth"]["desirability"] ** 1.5
    assert overlay["desirability"] == pytest.approx(total**0.4, abs=1e-6)
    # What counts more pulls harder.
    pulled = answer(told(capfd, *words, "latency:min:4,bandwidth:max:1", "--json")[1])["overlay"]
    assert pulled["at"]["b"] < overlay["at"]["b"]


def test_without_weights_every_response_has_its_own_optimum(bowl, capfd):
    code, out, _ = told(capfd, bowl, "--surface", "a,b", "--responses", "latency:min", "--scale", "log")
    assert code == 0
    assert "overlaid" not in out
    assert "latency (less is better, logarithms): a " in out
    report = answer(told(capfd, bowl, "--surface", "a,b", "--responses", "latency:min", "--json")[1])
    assert report["overlay"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no table is named"),
        (["--design", "12"], "a design needs its factors"),
        (["--design", "10", "--factors", "F"], "10 runs for 3 factors\n  the next one has 12"),
        (["--design", "12", "--factors", "T"], "no column 'factor'"),
        (["--design", "12", "--factors", "F", "--effect", "1"], "--effect needs the standard deviation"),
        (["--design", "12", "--factors", "F", "--sigma", "0"], "it must be positive"),
        (["--design", "12", "--factors", "F", "--out", "/nowhere/t.csv"], "cannot write /nowhere/t.csv"),
        (["T", "--surface", "a,c", "--desirability", "latency:min:1"], "no column 'c'"),
        (["T", "--surface", "a,b", "--desirability", "speed:max:1"], "no column 'speed'"),
        (["T", "--surface", "a,b", "--desirability", "latency:low:1"], "desirability latency:min"),
        (["T", "--surface", "a,b", "--desirability", "latency:min:-1"], "weight '-1'"),
        (["T", "--surface", "a,b", "--desirability", "latency:min:much"], "has the weight 'much'"),
        (["T", "--surface", "a,b"], "either --responses or --desirability"),
        (["T", "--desirability", "latency:min"], "no factor is named"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_message(words, message, factors, bowl, capfd):
    code, out, err = told(capfd, *({"F": factors, "T": bowl}.get(w, w) for w in words))
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_words_have_no_order(tmp_path, capfd):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{'on' if i % 2 else 'off'},{i}\n" for i in range(8)))
    code, _, err = told(capfd, path, "--surface", "a", "--responses", "y:min")
    assert code == 2
    assert "off and on have no order" in err
