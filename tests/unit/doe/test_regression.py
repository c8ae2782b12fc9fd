"""``model``: certified values, statsmodels, and what a fit hides."""

import csv
import json
import math
import re

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.datasets import longley

from autotune.cli import main
from autotune.doe.regression import Formula, fit
from autotune.doe.regression_text import regression_document, regression_page
from autotune.doe.table import Table
from autotune.screening.cost_terms import FORMS, cheapest
from tests.schemas import answer

LONGLEY = ("GNPDEFL", "GNP", "UNEMP", "ARMED", "POP", "YEAR")
CERTIFIED = {
    "Intercept": ("-3482258.63", "890420.384"),
    "GNPDEFL": ("15.0618723", "84.9149258"),
    "GNP": ("-0.0358191793", "0.0334910078"),
    "UNEMP": ("-2.02022980", "0.488399682"),
    "ARMED": ("-1.03322687", "0.214274163"),
    "POP": ("-0.0511041057", "0.226073200"),
    "YEAR": ("1829.15146", "455.478499"),
}
"""NIST's Statistical Reference Datasets, Longley: estimates and standard deviations, to nine digits."""


def table(columns):
    names = list(columns)
    rows = [
        {name: str(value) for name, value in zip(names, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
    return Table("t.csv", names, rows)


def grid(cost, noise=0.0, seed=0):
    """Processes × Size with a latency of ``cost(P, m)``; the noise is relative."""
    rng = np.random.default_rng(seed)
    p, m = (a.ravel().astype(float) for a in np.meshgrid(np.arange(2, 49, 2), 2 ** np.arange(1, 21)))
    return {"Processes": p, "Size": m, "Latency": cost(p, m) * np.exp(rng.normal(0, noise, len(p)))}


def switching(p, m):
    """A tree whose messages from 8 KiB on pay for a handshake."""
    return np.log2(p) * (1.5 + 12 * (m >= 8192) + 4e-4 * m)


@pytest.fixture
def latencies(tmp_path):
    path = tmp_path / "bcast.csv"
    columns = grid(switching, 0.02)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    return path


def test_certified_values_come_out_to_the_last_digit():
    data = longley.load_pandas().data
    fitted = fit(table(dict(data.items())), Formula("TOTEMP", LONGLEY))
    printed = {name: (f"{its.coef:#.9g}", f"{its.std_err:#.9g}") for name, its in fitted.coefficients.items()}
    assert printed == CERTIFIED
    assert f"{fitted.r2:.9f}" == "0.995479005"


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("log2", [(), ("Latency", "Size"), ("Latency",)])
def test_agrees_with_statsmodels_in_every_form(intercept, log2):
    columns = grid(switching, 0.1)
    fitted = fit(table(columns), Formula("Latency", ("Processes", "Size"), frozenset(log2), intercept))
    y, *x = (
        np.log2(columns[name]) if name in log2 else columns[name] for name in ("Latency", "Processes", "Size")
    )
    design = np.column_stack(x)
    ours = sm.OLS(y, sm.add_constant(design) if intercept else design).fit()
    their = np.column_stack([ours.params, ours.bse, ours.tvalues, ours.pvalues, ours.conf_int()])
    document = json.loads(json.dumps(regression_document(fitted)))
    mine = [list(its.values())[:6] for its in document["coefficients"].values()]
    np.testing.assert_allclose(mine, their, rtol=1e-12)
    assert list(document["coefficients"]) == [*(["Intercept"] if intercept else []), "Processes", "Size"]
    assert (document["r2"], document["aic"], document["n"]) == (ours.rsquared, ours.aic, len(y))


def test_a_switch_of_protocol_is_found_where_it_is():
    fitted = fit(
        table(grid(switching, 0.02)),
        Formula("Latency", ("Processes", "Size"), frozenset({"Latency", "Size"})),
    )
    first = fitted.steps[0]
    assert (first.term, first.below, first.above) == ("Size", 4096, 8192)
    assert 2**first.jump > 2
    assert first.p < 1e-6


def test_a_line_has_no_step_and_one_scatter():
    rng = np.random.default_rng(1)
    x = np.repeat(np.arange(1.0, 21), 10)
    fitted = fit(table({"x": x, "y": 3 + 2 * x + rng.normal(0, 1, len(x))}), Formula("y", ("x",)))
    assert fitted.steps == ()
    assert not fitted.heteroscedastic
    assert fitted.cost is None
    its = fitted.coefficients["x"]
    assert its.robust_std_err == pytest.approx(its.std_err, rel=0.5)


def test_scatter_that_grows_is_told_and_makes_robust_errors_matter():
    rng = np.random.default_rng(2)
    x = np.repeat(2.0 ** np.arange(10), 20)
    fitted = fit(table({"x": x, "y": 3 + 2 * x + x * rng.normal(0, 0.3, len(x))}), Formula("y", ("x",)))
    assert fitted.heteroscedastic
    assert fitted.coefficients["x"].robust_std_err > 1.5 * fitted.coefficients["x"].std_err


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("log", [True, False])
def test_the_form_that_made_the_times_is_found_again(form, log):
    columns = grid(lambda p, m: 2 + 1.3 * FORMS[form](p, m)[0] + 3e-4 * FORMS[form](p, m)[1], 1e-3)
    found = cheapest(columns["Processes"], columns["Size"], columns["Latency"], log=log)
    assert found is not None
    assert found.form == form
    assert found.byte == pytest.approx(3e-4, rel=0.02)
    if log:  # else the long messages alone decide
        assert (found.start, found.message) == (pytest.approx(2, rel=0.05), pytest.approx(1.3, rel=0.05))


def test_loggp_terms_beat_a_line_where_there_is_no_line():
    fitted = fit(table(grid(switching, 0.02)), Formula("Latency", ("Processes", "Size")))
    assert fitted.cost.form == "tree"
    assert fitted.cost.aic < fitted.aic


def test_a_fit_that_leaves_nothing_hides_nothing():
    fitted = fit(table({"x": np.arange(8.0), "y": 1 + 2 * np.arange(8.0)}), Formula("y", ("x",)))
    assert math.isnan(fitted.breusch_pagan_p)
    assert fitted.steps == ()


def told(capfd, *words):
    code = main(["model", *map(str, words)])
    out, err = capfd.readouterr()
    return code, out, err


def test_the_command_prints_fits_and_draws(latencies, tmp_path, capfd):
    page = tmp_path / "model.html"
    words = [latencies, "--response", "Latency", "--terms", "Processes,Size", "--log2", "Latency,Size"]
    code, out, err = told(capfd, *words, "--plot", page)
    assert code == 0
    assert "log2(Latency) ~ 1 + Processes + log2(Size); 480 rows" in out
    assert "between Size 4096 and 8192 the model breaks" in out
    assert "LogGP, tree" in out
    assert err == f"{page}\n"
    text = page.read_text()
    assert "LogGP: tree" in text
    assert "<script src" not in text
    code, out, _ = told(capfd, *words, "--json", "--where", "Processes=16")
    assert (code, out) == (2, "")  # all 20 rows have one number of processes
    code, out, _ = told(capfd, latencies, "--response", "Latency", "--terms", "Size", "--json", "--where",
                        "Processes=16")  # fmt: skip
    assert answer(out)["n"] == 20


def test_names_are_escaped_in_the_page():
    name = "<script>alert(1)</script>"
    x = np.arange(8.0)
    page = regression_page(fit(table({name: x, "y": x**2}), Formula("y", (name,))))
    assert name not in page


ROWS = ["Processes,Size,Latency,word", "2,8,1.0,a", "4,16,2.0,b", "8,32,3.5,a", "16,64,4.0,b", "32,128,,a"]


@pytest.mark.parametrize(
    ("words", "change", "message"),
    [
        ("--response Latenzy --terms Size", {}, "no column 'Latenzy'.*did you mean 'Latency'"),
        ("--response Latency --terms Size,Size", {}, "'Size' is named twice"),
        ("--response Latency --terms ,", {}, "no term is named"),
        ("--response Latency --terms word", {}, "row 2, column word: 'a' is not a finite number"),
        ("--response Latency --terms Size --log2 Processes", {}, "--log2 Processes is neither the response"),
        ("--response Latency --terms Size", {2: "4,16,fast,b"}, "row 3, column Latency: 'fast' is not a"),
        ("--response Latency --terms Size", {2: "4,16,nan,b"}, "row 3, .*: 'nan' is not a finite"),
        ("--response Latency --terms Size --log2 Latency", {3: "8,32,0,a"}, "row 4, .*: 0 has no logarithm"),
        ("--response Latency --terms Size,Processes --where word=a", {}, "2 complete rows for 3"),
        ("--response Latency --terms Size,Processes --where word=c", {}, "no row with word=c"),
        ("--response Latency --terms Size --where word", {}, "--where word names no value"),
        ("--response Latency --terms Size,Processes", {}, "Processes follows from Intercept and Size"),
        ("--response Latency --terms Size,Processes --log2 Size,Processes", {},
         r"log2\(Processes\) follows from Intercept and log2\(Size\)"),
        ("--response Latency --terms Size --where word=a", {4: "16,8,4.0,a", 3: "2,8,3.5,a", 5: "1,8,3,a"},
         "column Size: all 4 rows have 8"),
        ("--response Latency --terms Size --no-intercept", {i: f"{i},0,{i},a" for i in range(1, 6)},
         "column Size: all 5 rows have 0"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_message(words, change, message, tmp_path, capfd):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([ROWS[0], *(change.get(i, row) for i, row in enumerate(ROWS[1:], 1))]) + "\n")
    code, out, err = told(capfd, path, *words.split())
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 2
    assert re.search(message, err.replace("\n", " ")), err


def test_a_condition_keeps_the_rows_of_the_file_in_messages(tmp_path, capfd):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["x,y,word", "1,1,a", "2,2,b", "3,zz,b", "4,4,b"]) + "\n")
    _, _, err = told(capfd, path, "--response", "y", "--terms", "x", "--where", "word=b")
    assert "row 4, column y: 'zz'" in err
