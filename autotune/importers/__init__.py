"""Other people's measurements → records: benchmark logs and tables, beside the flow of a campaign.

`read` takes the text of a file and finds out by itself what is in it; one module per format does the
reading. Nothing here opens a file. A text that holds no table, or one that a failed or cut-off run left
behind, is an error that names the line, never an empty or shortened success.
"""

from operator import attrgetter

from autotune.errors import TableError
from autotune.importers import delimited, imb, osu, reprompi
from autotune.importers.measurement import Measurement
from autotune.importers.runlog import Log

__all__ = ["FORMATS", "Measurement", "read"]

FORMATS = {
    "OSU Micro-Benchmarks": osu,
    "Intel MPI Benchmarks": imb,
    "ReproMPI": reprompi,
    "delimited table": delimited,
}
"""Name of a format → its module, which has `announces(log)` and `read(log)`."""


def read(text: str, name: str) -> list[Measurement]:
    """All measurements in a text, in the order of its lines.

    A log may hold several runs of several benchmarks, with anything printed between and inside of them.

    Raises:
        TableError: No table of a known format, a failed or truncated run, or a value that is none.
    """
    log = Log.of(text, name)
    log.refuse_failed_run()
    formats = [form for form in (osu, imb, reprompi) if form.announces(log)]
    if not formats and delimited.announces(log):  # logs of benchmarks can look delimited, so this comes last
        formats = [delimited]
    measurements = [measurement for form in formats for measurement in form.read(log)]
    if not measurements:
        raise TableError(
            f"{name}: no table of measurements in {len(log.lines)} lines",
            f"known: {', '.join(FORMATS)}; a delimited table names a size and a latency in its first line",
        )
    return sorted(measurements, key=attrgetter("line"))
