"""Check every algorithm that can be forced, and print or write the table.

    python -m tests.conformance [--stacks OPENMPI41 …] [--ranks 2 …] [--choices posix …]
        [--collectives bcast …] [--write]

It runs on the MPI of this environment and on those of AUTOTUNE_PYTHON_OPENMPI41, …_MPICH and …_INTEL where
these are set. Exit code 1 where the table says something else than what was measured. ``--write`` changes
the table instead: what it says of other numbers of ranks, choices and collectives stays.
"""

import argparse
import sys

from tests.conformance.launching import CHOICES, FORCED, STACKS, Stack, outcome, python_of
from tests.conformance.table import FILE, differences, entry, merged, table, text


def main() -> int:
    """Measure, compare, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=STACKS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 3, 5, 2, 6, 7])
    parser.add_argument(
        "--choices",
        nargs="+",
        choices=("algorithm", *CHOICES),
        default=("algorithm", *CHOICES),
        help="what is forced: the algorithm, or what other variables choose",
    )
    parser.add_argument("--collectives", nargs="+", choices=FORCED, default=FORCED)
    parser.add_argument("--write", action="store_true", help="enter these numbers of ranks into the table")
    asked = parser.parse_args()
    choices = ["" if choice == "algorithm" else choice for choice in asked.choices]
    differing = False
    for name in asked.stacks:
        if not (python := python_of(name)):
            continue
        stack = Stack(python)
        if not (listed := stack.listed(choices, asked.collectives)):
            continue
        outcomes = {ranks: outcome(stack, ranks, asked.collectives, choices) for ranks in asked.ranks}
        measured = entry(listed, outcomes)
        count = sum(len(names.split()) for names in measured["checked"].values())
        cases = sum(one.cases for one in outcomes.values())
        sys.stdout.write(f"{stack.named}: {count} algorithms, {cases:,} calls\n")
        for row in measured["faults"]:
            which = "do not commute" if row["commuting_right"] else "excluded"
            said = f"{row['collective']} {row['algorithm']} ({which}): {row['ranks']} ranks, {row['case']}"
            sys.stdout.write(f"  {said}: {row['seen']}\n")
        for row in measured["untouched"]:
            sys.stdout.write(
                f"  untouched {row['collective']}: {row['ranks']} ranks, {row['case']}: {row['seen']}\n"
            )
        if asked.write:
            entries = table()  # as it is by now: several may run beside one another
            entries[stack.named] = merged(entries.get(stack.named), measured)
            FILE.write_text(text(entries), encoding="utf-8")
        for line in [] if asked.write else differences(stack.named, measured, outcomes):
            differing = True
            sys.stdout.write(f"  the table differs: {line}\n")
        sys.stdout.flush()
    return int(differing)


if __name__ == "__main__":
    sys.exit(main())
