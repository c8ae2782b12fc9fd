"""A library that an extra brings and that is not here: one message with the command, and nothing is begun."""

import sys
from importlib.util import find_spec

import pytest

from autotune.cli import main
from autotune.errors import ExitCode

SIMULATED = ("tune", "conf=allreduce_8node", "hydra/launcher=simulated", "campaign.dir={}/campaign")
LAUNCHED = ("measure", *SIMULATED[1:3])
MODEL = ("--response", "y", "--terms", "x")
CASES = [
    *(("tune", library, SIMULATED) for library in ("torch", "botorch", "scipy")),
    *(("tune", library, (*SIMULATED, "proposer=ax")) for library in ("ax", "botorch")),
    *(("tune", library, (*SIMULATED, "proposer=gp")) for library in ("gpytorch", "torch")),
    ("tune", "scipy", LAUNCHED),
    ("tune", "scipy", ("screen", "{}/rows.csv", "--factors", "x", "--responses", "y:min")),
    ("tune", "plotly", ("report", "{}/rows.csv", "--out", "{}/page.html")),
    ("tune", "jinja2", ("report", "{}/rows.csv", "--out", "{}/page.html")),
    ("tune", "pandas", ("import", "{}/rows.csv", "--out", "{}/out.parquet")),
    ("optuna", "optuna", (*SIMULATED, "proposer=optuna")),
    ("smac", "smac", (*SIMULATED, "proposer=smac")),
    ("smac", "ConfigSpace", (*SIMULATED, "proposer=smac")),
    ("parquet", "pyarrow", (*LAUNCHED, "--out", "{}/out.parquet")),
    ("parquet", "pyarrow", ("import", "{}/rows.csv", "--out", "{}/out.parquet")),
    ("parquet", "pyarrow", ("model", "{}/rows.parquet", *MODEL)),
    ("parquet", "pyarrow", ("screen", "{}/rows.parquet", "--factors", "x", "--responses", "y:min")),
    ("parquet", "pyarrow", ("tune", "conf=replay", "replay.table={}/rows.parquet", SIMULATED[-1])),
    ("studies", "statsmodels", ("model", "{}/rows.csv", *MODEL)),
    ("studies", "statsmodels", ("model", "{}/rows.csv", *MODEL, "--plot", "{}/out.html")),
    ("figures", "matplotlib", ("report", "{}/rows.csv", "--out", "{}/page.html", "--figures", "{}/figures")),
    ("traces", "otf2", ("record", "--trace", "{}/rows.otf2", "--out", "{}/calls.json")),
    ("cubex", "pycubexr", ("record", "--trace", "{}/rows.cubex", "--out", "{}/calls.json")),
]
ROWS = "collective,comm_size,message_bytes,latency_us,algorithm,x,y\n" + "".join(
    f"allreduce,8,{8**n},{n + 2},{name},{n},{n * n}\n" for n in range(1, 5) for name in ("ring", "linear")
)


@pytest.fixture
def without(monkeypatch):
    """A function that takes a library away from this process."""

    def take(library):
        assert find_spec(library)
        for name in [n for n in sys.modules if n.partition(".")[0] == library]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, library, None)

    return take


@pytest.mark.parametrize(("extra", "library", "words"), CASES)
def test_it_is_one_message_with_the_command(extra, library, words, without, tmp_path, capsys):
    for ending in ("csv", "parquet", "otf2", "cubex"):
        (tmp_path / f"rows.{ending}").write_text(ROWS)
    before = sorted(tmp_path.iterdir())
    without(library)
    assert main([word.format(tmp_path) for word in words]) == ExitCode.MISTAKE
    out, err = capsys.readouterr()
    assert f"pip install 'mpi-autotune[{extra}]'" in err
    assert "Traceback" not in out + err
    assert [path for path in tmp_path.iterdir() if path not in before and path.name != "page.html"] == []
