"""The examples of tables and profiles in the book are read as it says."""

import re
from pathlib import Path

from autotune.application.profiles import read_profile
from autotune.tables.importers import read

DOCS = Path(__file__).parents[4] / "docs"
TABLE, PROFILE = (
    re.search(r"^```csv.*?\n(.*?)^```", (DOCS / name).read_text("utf-8"), re.MULTILINE | re.DOTALL)[1]
    for name in ("import.md", "applications.md")
)


def test_table():
    first, second = read(TABLE, "table.csv")
    assert (first.comm_size, first.message_bytes, first.latency_us) == (64, 1024, 12.0)
    assert (second.message_bytes, second.labels) == (2048, (("algorithm", "ring"),))


def test_profile():
    profile = read_profile(PROFILE, "calls.csv")
    assert profile.application_s == 3600
    assert [(c.collective, c.comm_size, c.message_bytes, c.count) for c in profile.calls] == [
        ("allreduce", 288, 8, 1200000),
        ("allreduce", 288, 65536, 900000),
        ("bcast", None, 1 << 20, 40),
    ]
