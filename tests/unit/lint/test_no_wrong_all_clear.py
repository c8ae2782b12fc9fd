"""What aborts or is refused is found, whatever a file is called; what no reader knows is no all-clear."""

from pathlib import Path, PurePath

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from autotune.lint.files import kind_of, lint
from autotune.stacks.knobs import Knob, KnobKind
from autotune.stacks.knobs.ucx import parse

LISTING = Path(__file__).parents[2] / "data/knobs/ucx-1.13-infiniband.txt"
UCX = {knob.name: knob for knob in parse(LISTING.read_text())}
HERE = {
    "btl": ("self", "sm", "tcp", "uct"),
    "coll": ("basic", "libnbc", "tuned", "han", "self", "inter"),
    "pml": ("ob1", "ucx", "cm"),
    "osc": ("rdma", "sm", "ucx"),
    "mtl": ("ofi",),
}
ROWS = "2\n0 1 0 0\n4096 6 0 4096\n"
RULES = f"1 # num of collectives\n7 # ID = 7 Bcast\n2\n16\n{ROWS}5\n{ROWS}"
BARE = f"1\n7\n2\n16\n{ROWS}5\n{ROWS}"


def effects(text, name="mca-params.conf", mpi="openmpi5", **here):
    return [f.effect for f in lint({PurePath(name): text}, mpi, **here)]


@pytest.mark.parametrize(
    "name", ["a.txt", "rules.dat", "rules.md", "bcast.py", "x", "x.html", "x.sh", "mca.csv"]
)
@pytest.mark.parametrize(
    "text", [RULES, RULES.replace(" # num of collectives", "").replace(" # ID = 7 Bcast", "")]
)
def test_rules_are_read_whatever_the_name_is(name, text):
    assert any("after 16" in effect for effect in effects(text, name))


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("job.pbs", "#PBS -l select=2\nmpirun ./a\n", "shell"),
        ("job.txt", "#SBATCH -N 2\nsrun ./a\n", "shell"),
        ("run", "cd /tmp\nmpirun -np 2 ./a\n", "shell"),
        ("job.sh", "#!/usr/local/bin/ksh93 -x\nsrun ./a\n", "shell"),
        ("job.sh", "#!@SHELL@\nsrun ./a\n", "shell"),
        ("job.slurm", "#!/opt/plan9/bin/rc\n#SBATCH -N 2\nsrun ./a\n", "other"),
        ("make.txt", "make[1]: Nothing to be done\nif [ -x bin/mpiexec ] ; then \\\nfi\n", "other"),
        ("params.txt", "btl = self,sm\n", "mca"),
        ("settings.ini", "coll_tuned_use_dynamic_rules = 1\n", "mca"),
        ("numbers.txt", "4   10.05\n8   10.84\n", "other"),
        ("table.txt", "1 2\n2 4\n3 8\n4 16\n5 32\n", "other"),
        ("table.csv", "1,2\n2,4\n", "other"),
        ("ld.so.conf", "/usr/lib\n", "other"),
        ("slurm.conf", "ClusterName=c\nSlurmctldHost=n1\n", "other"),
        ("script.py", "#!/usr/bin/env python3\nio = 1\n", "other"),
        ("notes.md", "export UCX_TLS=rc\n", "shell"),
        ("words.txt", "nothing of the kind\n", "other"),
    ],
)
def test_kinds_by_content(name, text, kind):
    assert kind_of(PurePath(name), text) == kind


def test_a_file_of_no_known_kind_is_no_all_clear(tmp_path, capsys):
    unknown, known = tmp_path / "words.txt", tmp_path / "mca-params.conf"
    unknown.write_text("nothing of the kind\n")
    known.write_text("pml = ob1\n")
    assert main(["lint", str(unknown)]) == ExitCode.UNKNOWN == 5
    said = capsys.readouterr()
    assert "of an unknown kind" in said.err
    assert "0 findings in 0 file(s)" in said.out
    assert main(["lint", str(known)]) == 0
    assert main(["lint", str(known), str(unknown)]) == 5
    known.write_text("btl = self,^openib\n")
    assert main(["lint", str(known), str(unknown)]) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("btl = vader,openib,self", "has no btl openib: MPI_Init aborts"),
        ("btl = self,^openib", "^ stands within the list: MPI_Init aborts"),
        ("btl = ^self,^openib", "^ stands within the list"),
        ("mtl = psm,ofi", "has no mtl psm: a message"),
        ("osc = pt2pt", "has no osc pt2pt: MPI_Init aborts"),
        ("pml = yalla", "has no pml yalla"),
        ("btl = self, sm", "no btl ' sm'"),
        ("btl = SELF,sm", "no btl 'SELF'"),
        ("btl = self sm", "no btl 'self sm'"),
        ("pml = ob1,foo", "no pml 'foo'"),
        ("btl = self,usnic", "in the Open MPI 5.0 that is installed here"),
        ("coll = tuned", "without basic and libnbc"),
        ("coll = basic,tuned", "without libnbc"),
        ("coll = ^libnbc", "without libnbc"),
    ],
)
def test_lists_that_abort(line, said):
    assert any(said in effect for effect in effects(line + "\n", components=HERE)), effects(
        line + "\n", components=HERE
    )


@pytest.mark.parametrize(
    "line",
    [
        *("btl = vader,self", "btl = ^openib", "btl = ^", "btl = self,,sm", "btl =", "pml = ucx"),
        *("coll = basic,libnbc,tuned", "coll = ^han", "coll = ^foo", "io = ompio"),
    ],
)
def test_lists_that_work(line):
    assert effects(line + "\n", components=HERE) == []


def test_without_a_library_here_what_no_release_has_is_found_all_the_same():
    assert any("no btl openib" in e for e in effects("btl = self,openib\n"))
    assert effects("btl = self,openib,vader\n", mpi="openmpi4") == []
    assert any("no btl 'vadder'" in e for e in effects("btl = self,vadder\n", mpi="openmpi4"))
    assert effects("coll = ^hcoll\nbtl = self,site\n") == []


@pytest.mark.parametrize(
    "value",
    [
        *("RNDV_SCHEME=get_zcpy", "RNDV_SCHEME=get", "RNDV_SCHEME=", "RNDV_THRESH=64kib", "RNDV_THRESH=1.5k"),
        *("RNDV_THRESH=foo", "RNDV_THRESH=intra:foo,inter:8k", "RNDV_THRESH=64q", "RNDV_THRESH=1e3"),
        *("BCOPY_BW=7000", "BCOPY_BW=foo", "MAX_EAGER_RAILS=x", "NUM_EPS=foo", "RNDV_PERF_DIFF=abc"),
        *("UNIFIED_MODE=true", "UNIFIED_MODE=2", "UNIFIED_MODE=try", "KEEPALIVE_INTERVAL=20sec"),
        "ADDRESS_VERSION=v3",
    ],
)
def test_values_that_ucx_refuses(value):
    for text, name in ((f"export UCX_{value}\n", "a.sh"), (f"UCX_{value}\n", "ucx.conf")):
        if name == "a.sh" or not value.endswith("="):
            assert any("refuses the value" in e for e in effects(text, name, knobs=UCX)), name


@pytest.mark.parametrize(
    "value",
    [
        *(
            "RNDV_SCHEME=GET_ZCOPY",
            "RNDV_THRESH=64K",
            "RNDV_THRESH=64kb",
            "RNDV_THRESH=INF",
            "RNDV_THRESH=64b",
        ),
        *("RNDV_THRESH=intra:64k,inter:8k", "BCOPY_BW=7000MBps", "BCOPY_BW=7GBs", "BCOPY_BW=56Gbps"),
        *(
            "BCOPY_BW=7000MB/s",
            "UNIFIED_MODE=Y",
            "UNIFIED_MODE=on",
            "KEEPALIVE_INTERVAL=20",
            "RNDV_THRESH=-1",
        ),
        *("KEEPALIVE_INTERVAL=1.5m", "KEEPALIVE_INTERVAL=inf", "MAX_EAGER_RAILS=0x4", "RNDV_PERF_DIFF=1e-3"),
        "LOG_LEVEL=warn",
    ],
)
def test_values_that_ucx_takes(value):
    assert effects(f"export UCX_{value}\n", "a.sh", knobs=UCX) == []


@pytest.mark.parametrize("value", ["MAX_EAGER_RAILS=2x", "MAX_EAGER_RAILS=1.5"])
def test_numbers_that_ucx_cuts(value):
    assert any("is cut to" in e for e in effects(f"export UCX_{value}\n", "a.sh", knobs=UCX))


def test_no_default_of_a_library_is_found():
    for knob in UCX.values():
        if knob.default and "\n" not in knob.default:
            assert not any(
                "refuses" in e for e in effects(f"{knob.name}={knob.default}\n", "ucx.conf", knobs=UCX)
            )


MCA = {
    knob.name: knob
    for knob in (
        Knob("openmpi", "5.0.11", "btl_tcp_links", KnobKind.INTEGER, "1"),
        Knob("openmpi", "5.0.11", "btl_sm_eager_limit", KnobKind.BYTES, "4096"),
        Knob(
            "openmpi",
            "5.0.11",
            "mpi_leave_pinned",
            KnobKind.ENUMERATOR,
            "auto",
            allowed=("false", "true", "auto"),
        ),
        Knob(
            "openmpi",
            "5.0.11",
            "btl_base_verbose",
            KnobKind.ENUMERATOR,
            "error",
            allowed=("none", "error", "max"),
        ),
        Knob(
            "openmpi", "5.0.11", "mpi_show_handle_leaks", KnobKind.BOOLEAN, "false", allowed=("false", "true")
        ),
    )
}
"""As ``ompi_info`` of 5.0.11 lists them."""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("btl_tcp_links = abc", "silently taken for 0"),
        ("btl_tcp_links = 12x", "silently taken for 12"),
        ("btl_sm_eager_limit = 64Q", "silently taken for 64"),
        ("btl_sm_eager_limit = 1.5k", "silently taken for 1"),
        ("mpi_leave_pinned = maybe", "the default holds"),
        ("mpi_show_handle_leaks = TRUE", "the default holds"),
        ("btl_base_verbose = blah", "MPI_Init aborts"),
        ("btl_base_verbose = 30", ""),
        ("btl_sm_eager_limit = 64k", ""),
        ("btl_sm_eager_limit = 0x10", ""),
        ("mpi_leave_pinned = yes", ""),
        ("mpi_show_handle_leaks = 1", ""),
    ],
)
def test_values_of_open_mpi(line, said):
    found = effects(line + "\n", knobs=MCA)
    assert any(said in e for e in found) if said else found == []


def test_names_are_compared_with_all_that_ucx_lists():
    assert any("did you mean" in f.remedy for f in _linted("export UCX_TCP_TX_SEG_SIZ=8k\n"))
    assert _linted("export UCX_TCP_TX_SEG_SIZE=8k\n") == ()


def _linted(text):
    return lint({PurePath("a.sh"): text}, knobs=UCX)


def test_what_is_included_and_excluded_at_once_is_refused():
    assert any("exclude each other" in e for e in effects("btl_tcp_if_include = a\nbtl_tcp_if_exclude = b\n"))


@pytest.mark.parametrize(
    ("pml", "btl", "sure"),
    [
        ("ob1", "tcp,sm", {True}),
        ("ob1", "^self,tcp", {True}),
        ("ob1", "self,tcp", set()),
        ("ob1", "^tcp", set()),
        ("ucx,ob1", "tcp", {False}),
        ("", "tcp,sm", {False}),
        ("ucx", "sm", set()),
    ],
)
def test_a_list_without_self_keeps_each_rank_from_itself(pml, btl, sure):
    text = (f"pml = {pml}\n" if pml else "") + f"btl = {btl}\n"
    made = lint({PurePath("mca-params.conf"): text})
    assert {f.sure for f in made if "without self" in f.effect} == sure


def test_a_switch_in_capitals_is_off():
    text = "coll_tuned_use_dynamic_rules = TRUE\ncoll_tuned_bcast_algorithm = 6\ncoll_han_priority = 0\n"
    assert any("silently ignored" in e for e in effects(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PRTE_MCA_rmaps_default_mapping_policy = :oversubscribe\n", "names no parameter here"),
        ("oob_tcp_listen_mode = listen_thread\n", "silently ignored"),
        ("coll_tuned_use_dynamic_rules = 1\ncoll_tuned_bcast_algorithm_max_requests = 8\n", "no parameter"),
    ],
)
def test_names_of_no_parameter(text, said):
    assert any(said in e for e in effects(text))


def test_what_takes_the_place_of_a_launcher_s_parameter():
    def remedy(text):
        return lint({PurePath("mca-params.conf"): text})[0].remedy

    assert remedy("oob_tcp_disable_family = IPv6\n") == "export PRTE_MCA_oob_tcp_disable_ipv6_family=1"
    assert "nothing in its place" in remedy("oob_tcp_listen_mode = listen_thread\n")
    assert remedy("PRTE_MCA_a_b = c\n") == "export PRTE_MCA_a_b=c"


def test_a_component_that_another_build_has_is_no_slip():
    known = {"coll_tuned_priority", "coll_han_priority", "btl_sm_eager_limit"}
    script = "mpirun -np 64 --mca coll_hcoll_enable 0 ./a\n"
    assert effects(script, "a.sh", parameter_names=known) == []
    assert effects("coll_hann_priority = 0\n", parameter_names=known)


def test_the_first_entry_of_rules_is_for_smaller_communicators_too():
    assert any("2 to 4 ranks" in e for e in effects("1\n7\n1\n5\n1\n0 6 0 0\n", "m1_rules.conf"))
    assert effects("1\n7\n2\n0\n1\n0 0 0 0\n5\n1\n0 6 0 0\n", "rules.conf") == []


@pytest.mark.parametrize("name", ["mpi_scatterv", "MPI_Scatterv", "mpi_allgatherv"])
def test_collectives_with_sizes_of_their_own_are_some(name):
    assert effects(f"export MPICH_COLL_OPT_OFF={name}\n", "a.sh") == []
