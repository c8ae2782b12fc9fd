"""A disk that is full or read-only: one message, exit code 4, nothing booked; the same command goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

MOUNTED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-euc"]
"""A name space of its own, in which anybody may mount."""

if subprocess.run([*MOUNTED, "mount -t tmpfs none /mnt"], capture_output=True, check=False).returncode:
    pytest.skip("nobody may mount here", allow_module_level=True)

TUNE = f"""{sys.executable} -m autotune conf=allreduce_8node hydra/launcher=simulated proposer=random \
 campaign.dir=/mnt/here verify.enabled=false 'sizes=[8,64k]'"""
MPIRUN = """
import sys
from pathlib import Path
from autotune.stacks.ports import LaunchRequest, Placement
from hydra_plugins.autotune._mpirun import run_here
request = LaunchRequest(Path("/mnt"), (), {}, Placement(2), 60.0)
print(run_here([(request, sys.argv[1:], {})])[0])
"""


def mounted(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*MOUNTED, f"mount -t tmpfs -o size=32k none /mnt; set +e; {script}", "sh", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_campaign_stops_where_the_disk_is_full_and_goes_on_where_there_is_room():
    done = mounted(
        f"{TUNE} budget.launches=400; echo $?; wc -l < /mnt/here/journal.jsonl; "
        f"mount -o remount,size=8m /mnt; {TUNE} budget.launches=4; echo $?; head -5 /mnt/here/journal.jsonl"
    )
    assert "Traceback" not in done.stderr
    assert done.stderr.count("autotune: ") == 1
    assert "/mnt/here cannot be written: No space left on device" in done.stderr
    codes = [line for line in done.stdout.splitlines() if line.isdecimal()]
    assert codes[0] == "4"
    assert int(codes[1]) > 5
    assert codes[2] == "0"


def test_a_campaign_on_a_read_only_disk_is_refused_in_one_message():
    done = mounted(f"mount -o remount,ro /mnt; {TUNE} budget.launches=4; exit $?")
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("fills", ["stdout", "a file"])
def test_a_launch_that_found_no_room_is_not_booked_as_a_crash(fills):
    where = "" if fills == "stdout" else "of=/mnt/big"
    fail = f"dd if=/dev/zero {where} bs=1k count=300; exit 1"
    done = mounted('"$@"; exit $?', sys.executable, "-c", MPIRUN, "sh", "-c", fail)
    assert "crashed" not in done.stdout
    assert "StorageError: /mnt cannot be written: No space left on device" in done.stderr


def test_with_room_it_is_a_crash(tmp_path: Path):
    done = mounted('mount -o remount,size=8m /mnt; "$@"', sys.executable, "-c", MPIRUN, "sh", "-c", "exit 1")
    assert "'crashed'" in done.stdout
