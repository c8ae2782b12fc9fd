# ReFrame: are the MPI settings of this system right, and still as fast as they were? For any site and prefix:
#   reframe -c docs/recipes/reframe_checks.py -r -S AutotuneGuard.kept=/opt/tuned -S AutotuneGuard.minutes=10
#   reframe -c docs/recipes/reframe_checks.py -r -S AutotuneLint.files=FILE,FILE
# What is not named is skipped. The program: -S program=/opt/venv/bin/autotune, else the one in PATH. The size
# of a job: -S AutotuneGuard.num_tasks=…, or a class of the site's own that inherits from these.
import json
import math
import shlex

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher


def words_of(text):
    """A message as ReFrame takes it, which formats it."""
    return text.strip().replace("{", "{{").replace("}", "}}")


class Autotune(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    program = variable(str, value="autotune")

    def asks(self, *words):
        self.executable = shlex.quote(self.program)
        self.executable_opts = [*map(shlex.quote, words), "||", "true"]  # what it says decides

    @run_before("run")
    def alone(self):  # the program launches MPI itself: the partition's launcher would start it within MPI
        self.job.launcher = getlauncher("local")()

    def answer(self):
        folder = self.stagedir + "/"
        with open(folder + str(self.stdout), encoding="utf-8") as printed:
            text = printed.read()
        with open(folder + str(self.stderr), encoding="utf-8") as complaint:
            sn.assert_true(text, msg=words_of(complaint.read()) or "nothing was printed").evaluate()
        return json.loads(text)


@rfm.simple_test
class AutotuneLint(Autotune):
    """No file sets what the MPI would ignore or misread."""

    files = variable(typ.List[str], value=[])

    @run_after("init")
    def command(self):
        self.skip_if(not self.files, "no files: -S AutotuneLint.files=FILE,…")
        self.asks("lint", "--json", "--", *self.files)

    @sanity_function
    def clean(self):
        said = self.answer()
        found = [f"{one['file']}:{one['line']}: {one['code']} {one['effect']}" for one in said["findings"]]
        return sn.assert_false(found + said["not_judged"], msg="{0}")


@rfm.simple_test
class AutotuneGuard(Autotune):
    """Settings that ``autotune guard keep`` kept hold; with minutes, each size beside the untouched stack."""

    kept = variable(str, value="")
    minutes = variable(float, value=0.0)  # 0: seconds, for versions and values in effect
    margin = variable(float, value=0.1)

    @run_after("init")
    def command(self):
        self.skip_if(not self.kept, "no prefix: -S AutotuneGuard.kept=DIR")
        how = ["--minutes", str(self.minutes)] if self.minutes else ["--quick"]
        self.asks("guard", "check", self.kept, "--json", *how)

    @sanity_function
    def holds(self):
        said = self.answer()
        return sn.assert_ne(said["code"], 1, msg=words_of(said["headline"]))

    @run_before("performance")
    def speeds(self):
        self.perf_variables, references = {}, {}
        for slot in self.answer()["slots"]:
            name = f"{slot['collective']}_{slot['ranks']}_{slot['bytes']}"
            speed = sn.make_performance_function(sn.defer(slot["default_us"] / slot["settings_us"]), "x")
            spread = math.hypot(slot["sd_between_days"] or 0.0, slot["sd_of_a_launch"] or 0.0)
            self.perf_variables[name] = speed
            references[name] = (1.0, -min(1.0, max(self.margin, 4 * spread)), None, "x")
        self.reference = {"*": references}
