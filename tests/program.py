"""The program as a user starts it, on a machine that belongs to no Slurm cluster.

``autotune`` forks it from a process that has imported what it will import, which takes most of the time of a
short command: its working directory, environment, output and exit code are those of a process of its own. Run
as a script, this module is that process: of each request, a line, it tells the pid, and how that ended.
"""

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory


def autotune(*words, cwd, timeout_s=280, **env):
    """Run ``python -m autotune`` with these words, and variables, to its end, as ``subprocess.run`` would."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {
            "words": [str(word) for word in words],
            "cwd": str(cwd),
            "env": _environment(env),
            "streams": [str(out), str(err)],
        }
        warm, pid, ended = _warm(), 0, []
        try:
            warm.stdin.write(json.dumps(request).encode() + b"\n")
            pid = int(warm.stdout.readline())
            ended = select.select([warm.stdout], [], [], timeout_s)[0]
            if not ended:
                os.kill(pid, signal.SIGKILL)
            code = int(warm.stdout.readline())
        except BaseException:  # a limit of the test, say: what is still to be told is not the next one's
            _warm.cache_clear()
            warm.kill()
            with contextlib.suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, signal.SIGKILL)
            raise
        if not ended:
            raise subprocess.TimeoutExpired(words, timeout_s, out.read_bytes(), err.read_bytes())
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


def autotune_alone(*words, cwd, timeout_s=280, **env):
    """The same in an interpreter of its own, whose imports take longer, and whose hashes are others."""
    command = [sys.executable, "-m", "autotune", *words]
    env = _environment(env)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout_s)


def ran(argv, **options):
    """A command to its end, with what it printed; ``options`` are those of ``subprocess.run``."""
    return subprocess.run(argv, capture_output=True, text=True, **options)


def _environment(added):
    ours = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    return {"SLURM_CONF": "/no/such/slurm.conf"} | ours | added


@cache
def _warm():
    """The process that others are forked from: one for each that runs tests."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, bufsize=0)
    atexit.register(process.kill)
    return process


def _serve():
    """Fork what is asked for, and tell how it ended; returns in each fork."""
    import plotly.graph_objects  # noqa: F401 - imported for the forks, as all of these
    import scipy.optimize
    import scipy.stats  # noqa: F401
    from hydra.core.plugins import Plugins

    import autotune.commands.report
    import autotune.commands.tune
    import autotune.views.report  # noqa: F401
    from autotune.cli import main

    Plugins.instance()
    with contextlib.redirect_stderr(io.StringIO()):
        main(["status", os.devnull])  # Typer imports where it is used
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if not pid:
            os.chdir(asked["cwd"])
            os.environ.clear()
            os.environ.update(asked["env"])
            for number, name in enumerate([os.devnull, *asked["streams"]]):
                file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(file, number)
                os.close(file)
            sys.path[0] = asked["cwd"]
            sys.argv[1:] = asked["words"]
            return
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


if __name__ == "__main__":
    _serve()
    runpy.run_module("autotune", run_name="__main__", alter_sys=True)
