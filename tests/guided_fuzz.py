"""``make fuzz GUIDED=600``: inputs of a reader that coverage chooses, by Atheris, from its seed and corpus.

    python -m tests.guided_fuzz [READER [SECONDS]]

Without words it lists the readers. The working corpus is kept in ``.fuzz/READER``, what fails is written to
``.fuzz/READER-crash-…``.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["autotune"]):
    from tests.property.test_readers import DATA, READERS, _survives

KEPT = Path(".fuzz")


def main(reader: str, seconds: str = "600") -> None:
    """Fuzz one reader for so long; ends with 77 where an input gave a traceback."""
    corpus = KEPT / reader
    corpus.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    (corpus / "seed").write_bytes(READERS[reader][0](folder))
    for known in (DATA / "corpus" / reader).glob("*"):
        (corpus / known.name).write_bytes(known.read_bytes())
    options = [f"-max_total_time={seconds}", "-rss_limit_mb=8000", "-timeout=60", "-print_final_stats=1"]
    where = [f"-artifact_prefix={KEPT}/{reader}-", str(corpus)]
    atheris.Setup([sys.argv[0], *options, *where], lambda text: _survives(reader, text, folder))
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    else:
        sys.stdout.write(" ".join(READERS) + "\n")
