"""Export rules of ``coll_tuned`` as Open MPI 6 reads them, in JSON."""

import json
from collections.abc import Mapping
from pathlib import Path

from autotune.errors import printable
from autotune.exporters.launch_line import mpirun, stated
from autotune.exporters.origin import UNTRIED, remarks
from autotune.exporters.settings import settings
from autotune.recommend.recommendation import Recommendation
from autotune.stacks import coll_tuned

JSON_FILE = "coll_tuned_rules.json"  # Name of the rules file.


class CollTunedJson:
    """Export rules of ``coll_tuned`` as Open MPI 6 reads them."""

    name = "coll_tuned_json"
    summary = f"{JSON_FILE}: per-size rules of coll_tuned in JSON (Open MPI 6.0); format checked, never run"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return a mapping from the rules file's name to its text; Open MPI decides for calls without a rule.

        Raises:
            UserError: a rules file of ``coll_tuned`` cannot express the rules.
        """
        tables = coll_tuned.table(recommendation.rules)
        collectives = {collective: _json_tables(collective, tables[collective]) for collective in tables}
        document = {
            "comment": [*remarks(recommendation), UNTRIED, f"use: {self.use(recommendation, directory)}"],
            "rule_file_version": 3,
            "module": "tuned",
            "collectives": collectives,
        }
        return {JSON_FILE: printable(json.dumps(document, indent=1, ensure_ascii=False) + "\n")}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line that applies the rules file and the job-wide settings."""
        deployed, path = settings(recommendation, directory), directory.absolute() / JSON_FILE
        mca = {**deployed.mca, "coll_tuned_use_dynamic_rules": "1"}
        mca["coll_tuned_dynamic_rules_filename"] = str(path)
        return mpirun(recommendation, stated(mca, deployed.other))


def _json_tables(
    collective: str, by_size: Mapping[int, tuple[coll_tuned.TunedRow, ...]]
) -> list[dict[str, object]]:
    """Return the entries for one collective, as Open MPI 6 reads them.

    Bounds are inclusive, the first rule that matches counts, and Open MPI decides if none does. Values of
    zero are left out, since they are the default. Open MPI's code reads ``seg_size``, but its JSON schema
    does not contain it.
    """
    entries = []
    for (start, rows), end in zip(by_size.items(), [*list(by_size)[1:], None], strict=True):
        rules = [
            {
                "msg_size_min": row.threshold_bytes,
                "msg_size_max": "inf" if next_row is None else next_row.threshold_bytes - 1,
                "alg": coll_tuned.enumerator(collective, row.algorithm, (6, 0)),
                **({"faninout": row.fanout} if row.fanout else {}),
                **({"seg_size": row.segment_bytes} if row.segment_bytes else {}),
            }
            for row, next_row in zip(rows, [*rows[1:], None], strict=True)
            if row.algorithm
        ]
        if rules:
            bounds = {"comm_size_min": start} | ({} if end is None else {"comm_size_max": end - 1})
            entries.append({**bounds, "comm_rank_distribution": "any", "rules": rules})
    return entries
