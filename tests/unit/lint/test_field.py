"""What stands in public scripts and files, each kind as small as it can be."""

from pathlib import Path, PurePath

import pytest

from autotune.errors import ExitCode
from autotune.lint.files import kind_of, lint
from autotune.lint.verbs.lint import Asked
from autotune.lint.verbs.lint import lint as verb
from tests.unit.lint.test_no_wrong_all_clear import UCX

FIELD = Path(__file__).parents[2] / "data/field"
FORCED = "--mca coll_tuned_allreduce_algorithm 3"
MISSING = "without coll_tuned_use_dynamic_rules"


def found(text, name="job.sh", mpi="", **here):
    return [f"{f.line}: {f.effect}" for f in lint({PurePath(name): text}, mpi, **here)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("f1_dynamic_rules.txt", {8: "communicator size 5 after 16"}),
        ("g1_branch.sh", {}),
        ("h1_helpers.sh", {}),
        ("i1_do_mpirun.sh", dict.fromkeys((2, 3, 4, 5), MISSING)),
        ("j1_hcoll.sh", {}),
        ("k1_mca-params.conf", {1: "names no parameter here", 2: "silently ignored", 3: "silently ignored"}),
        ("l1_mca-params.conf", {1: "has no btl openib: MPI_Init aborts"}),
        ("m1_rules.conf", {4: "2 to 4 ranks"}),
        ("m3_mca-params.conf", {3: "no parameter coll_tuned_bcast_algorithm_max_requests"}),
        ("n1_ucx_value.sh", {2: "refuses the value"}),
        ("n3_scatterv.sh", {}),
    ],
)
def test_a_file_of_the_field(name, said):
    seen = lint({PurePath(name): (FIELD / name).read_text()}, knobs=UCX)
    assert {f.line for f in seen if "coll_han" not in f.effect and "also used by" not in f.effect} <= set(
        said
    )
    for line, words in said.items():
        assert any(f.line == line and words in f.effect for f in seen), seen
    assert not said or any(f.sure for f in seen)


KNOWN = {
    "pml",
    "btl",
    "coll",
    "coll_han_priority",
    "coll_tuned_use_dynamic_rules",
    "coll_tuned_allreduce_algorithm",
}
BAD = "UCX_RNDV_SCHEME=get_zcpy"


@pytest.mark.parametrize(
    "line",
    [
        *(f"mpirun -genv {BAD.replace('=', ' ')} ./a", f"mpiexec -env {BAD.replace('=', ' ')} -n 2 ./a"),
        *(f"srun --export=ALL,{BAD} ./a", f"mpiexec --env {BAD} ./a", f"aprun -e {BAD} -n 2 ./a"),
        *(f"jsrun -E {BAD} ./a", f"flux run --env={BAD} ./a", f"mpirun_rsh -np 2 {BAD} ./a"),
        *(f"srun env {BAD} ./a", f"docker run -e {BAD} image mpirun ./a", f"mpirun -np 2 env {BAD} ./a"),
        *(f"run() {{\n mpirun -x {BAD} ./a\n}}\nrun", f"env {BAD} mpirun a"),
        *(f"typeset -x {BAD}\nmpirun ./a", f"set -a\n{BAD}\nmpirun ./a", f"export SINGULARITYENV_{BAD}"),
        *(f"$MPIRUN -x {BAD} ./a", f"out=$(mpirun -x {BAD} ./a)", f"mpirun -x {BAD} ./a | tee log &"),
        f"if mpirun -x {BAD} ./a; then echo; fi",
    ],
)
def test_the_environment_of_a_launch_is_read_however_it_is_given(line):
    assert any("refuses the value" in said for said in found(line + "\n", knobs=UCX)), line


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("spack.yaml", "spack:\n  config:\n", "recipe"),
        ("pod.yaml", "apiVersion: v1\nenv:\n- name: UCX_TLS\n", "recipe"),
        ("Dockerfile", f"FROM x\nRUN mpirun -x {BAD} ./a\n", "recipe"),
        ("a", "easyblock = 'Bundle'\ntoolchain = {}\n", "recipe"),
        ("ucx.lua", 'setenv("UCX_TLS", "rc")\n', "recipe"),
        ("ucx", "#%Module1.0\nsetenv UCX_TLS rc\n", "recipe"),
        ("job.csh", "mpirun ./a\n", "csh"),
        ("job", "#!/bin/tcsh -f\nmpirun ./a\n", "csh"),
        ("job.sh", "#!/bin/bash\nsetenv A b\n", "shell"),
        ("env", "setenv UCX_TLS rc\n", "csh"),
    ],
)
def test_kinds_whose_settings_are_not_followed(name, text, kind):
    assert kind_of(PurePath(name), text) == kind


def test_a_file_of_such_a_kind_is_named(tmp_path, capsys):
    files = tmp_path / "job.csh", tmp_path / "Dockerfile"
    for file in files:
        file.write_text("FROM x\n")
    assert verb(files, Asked()) == ExitCode.UNKNOWN
    assert capsys.readouterr().err.count("not followed") == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job", f"#PBS -l select=2\n\nexport {BAD}\nmpirun ./a\n"),
        (".bashrc", f"# .bashrc\nif [ -f /etc/bashrc ]; then\n . /etc/bashrc\nfi\nexport {BAD}\n"),
    ],
)
def test_a_script_is_known_by_its_content(name, text):
    assert kind_of(PurePath(name), text) == "shell"
    assert len(found(text, name, knobs=UCX)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Makefile", "all:\n\tgcc a.c\nio = 1\n"),
        (
            "help.txt",
            "[unknown]\nMCA parameter = x\npml = y is what you meant, see the manual\nand more\nlines\n",
        ),
        ("deep.sh", "#!/bin/bash\n" + "( " * 5000 + "mpirun ./a"),
        ("deep2.sh", "#!/bin/bash\n" + "$( " * 3000),
    ],
)
def test_what_cannot_be_read_gets_no_verdict(name, text):
    assert found(text, name) == []


@pytest.mark.parametrize(
    "text",
    [
        f"mpirun $OPTIONS {FORCED} ./a\n",
        "if a; then\n export OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll=^han\nfi\n"
        f"mpirun {FORCED} ./a\n",
        'if [ "$M" = a ]; then export OMPI_MCA_pml=ob1; fi\n'
        'if [ "$M" = b ]; then export UCX_TLS=rc; fi\nmpirun ./a\n',
        "if [ $M ]; then export OMPI_MCA_pml=ucx; else export OMPI_MCA_pml=ob1; exit; fi\n"
        "export UCX_TLS=rc\nmpirun ./a\n",
        '[ -n "$X" ] && export OMPI_MCA_pml=ob1 || export UCX_TLS=rc\nmpirun ./a\n',
        "( export OMPI_MCA_pml=ob1 )\nexport UCX_TLS=rc\nmpirun ./a\n",
        "export OMPI_MCA_pml=ob1\nunset OMPI_MCA_pml\nexport UCX_TLS=rc\nmpirun ./a\n",
        "srun -n 2 mpirun -np 1 --map-by core ./a\n",
        "module load intel-mpi\nmpirun -map-by chip ./a\n",
        "mpirun -ppn 2 -bind-to user:0 ./a\n",
        "module load openmpi/4.1.5\nmpirun --mca btl openib,self,vader ./a\n",
        "jsrun -n 2 -a 4 --smpiargs='-mca coll_ibm_skip_barrier 1' ./a\n",
        "MPICH_GTL_DIRS=$A\nnvcc ${MPICH_GTL_DIRS}\nMPICH_MINE=1\nmpirun ./a\n",
        "export FI_CXI_RDZV_PROTO=alt_read\n",
        "export OMPI_MCA_opal_timing_output=a\nmpirun ./a\n",
        "spack env activate openmpi3\nmpirun --mca coll_tuned_use_dynamic_rules 1 "
        "--mca coll_tuned_allreduce_algorithm 3 ./a\n",
        "#PJM -L node=4\nmpiexec -mca mpi_print_stats 1 -mca orte_abort_print_stack 1 ./a\n",
        "export UCX_TLS=tcp\nmpirun -n 2 --mca pml ob1 $UCX/bin/ucx_perftest\n",
        "mpirun -n 2 --mca pml ob1 -x UCX_TLS=rc ./all_reduce_perf -b 8\n",
        "mpirun -n 2 --mca pml ucx --mca btl ^vader,tcp,openib,uct ./a\n",
        "mpirun -n 2 --mca pml ucx --mca btl self ./a\n",
        "for v in UCX_TLS; do export $v; done\nUCX_TLS=rc\nmpirun ./a\n",
        "mpirun -n 2 --rankfile hosts ./a\n",
        "export UCX_KEEPALIVE_INTERVAL=20s\nmpirun -n 2 ./a\n",
    ],
)
def test_what_is_right_on_every_path_is_left_alone(text):
    assert found(text, parameter_names=KNOWN) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("UCX_NETDEVICES", "UCX_NET_DEVICES"),
        ("UCX_TSL", "UCX_TLS"),
        ("UCX_UD_VERBS_TX_MIN_SGE", ""),
        ("UCX_BCOPY_THERSH", "UCX_BCOPY_THRESH"),
        ("UCX_IB_ADDR_KIND", ""),
    ],
)
def test_a_slip_is_one_of_the_hand(name, meant):
    seen = lint({PurePath("a.sh"): f"export {name}=x\nmpirun ./a\n"})
    assert [f.remedy for f in seen if "knows no" in f.effect] == ([f"did you mean {meant}?"] if meant else [])


@pytest.mark.parametrize(
    ("line", "effect", "remedy"),
    [
        ("mpirun -n 2 -rf hosts ./a", "no option -rf", "--map-by rankfile:file=FILE"),
        ("mpirun -n 2 --bysocket ./a", "no option --bysocket", "--map-by package"),
        ("mpirun -npernode 2 --map-by core ./a", "-npernode means --map-by", "--map-by ppr:N:node alone"),
        ("mpirun -n 2 --mca pml ucx --mca btl openib,self ./a", "sends no message over a BTL", "UCX_TLS"),
        ("export UCX_KEEPALIVE_INTERVAL=0", "UCX refuses UCX_KEEPALIVE_INTERVAL = 0", "inf turns"),
        ("export UCX_KEEPALIVE_NUM_EPS=0", "UCX refuses", "1 or more"),
        ("export OMPI_MCA_coll_accelerator_priority=1", "no coll_accelerator (6.0 has)", "leave it out"),
        ("export OMPI_MCA_plm_rsh_args='-o A=b -q'", "PRRTE", "PRTE_MCA_plm_ssh_args='-o A=b -q'"),
    ],
)
def test_what_5_0_makes_of_it(line, effect, remedy):
    seen = lint({PurePath("a.sh"): f"{line}\nmpirun -n 2 ./a\n"}, "openmpi5")
    assert any(effect in one.effect and remedy in one.remedy for one in seen), seen


def test_only_a_script_with_an_interpreter_loses_it_by_a_carriage_return():
    (only,) = lint({PurePath("a.sh"): "# no interpreter\r\nexport A=1\r\n"})
    assert "interpreter" not in only.effect
    for first, lost in (
        ("/bin/bash -l", "option"),
        ("/usr/bin/env bash", "interpreter"),
        ("/bin/sh", "interpreter"),
    ):
        (only,) = lint({PurePath("a.sh"): f"#!{first}\r\nexport A=1\r\n"})
        assert f"the {lost} in the first line is not found" in only.effect


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("use_eager_rdma", "btl_openib_use_eager_rdma"),
        ("base_env_list", "mca_base_env_list"),
        ("tcp_if_include", ""),  # btl and oob have one
        ("verbose", ""),
        ("mpi_use_eager_rdma", ""),  # a framework's
        ("my_own_setting", ""),
    ],
)
def test_a_name_without_its_framework_is_told_where_only_one_ends_so(name, whole):
    seen = lint({PurePath("a.sh"): f"export OMPI_MCA_{name}=1\nmpirun ./a\n"}, parameter_names=KNOWN)
    assert [f.remedy for f in seen if "nothing reads" in f.effect] == (
        [f"did you mean {whole}?"] if whole else []
    )


def test_a_section_of_ucx_conf_asks_of_the_machine():
    assert found("[Grace]\nCPU model=Grace\nUCX_TLS=rc\n", "ucx.conf") == []


def test_a_remedy_names_what_prrte_has():
    def remedy(line):
        return lint({PurePath("mca-params.conf"): line})[0].remedy

    assert remedy("plm = ^slurm\n") == "export PRTE_MCA_plm='^slurm'"
    assert remedy("plm_tm_verbose = 1\n") == "5.0 has nothing in its place: leave it out"


def test_a_log_of_changes_is_no_script():
    text = "2020-01-02  A. Person\n\n\t* run.c: Take the word of the\n\tmpirun command where it stands.\n" * 3
    assert kind_of(PurePath("ChangeLog"), text) == "other"
    assert kind_of(PurePath("launch"), "cd /scratch\nmpirun -n 4 ./a\n") == "shell"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("logfile", "1611074845.88 Tue Jan 19 2021 0.0 starting\nrm -rf a\nmpicc -c a.c\n" * 9, "other"),
        ("README", "Run it so:\n\n  mpirun -n 4 ./amg -P 2 2 1\n\nOptions\n  -n NX\n", "other"),
        ("Makefile", "run:\n\tmpirun -n 4 ./a\n", "other"),
        ("rules.mk", "export MPICH_CC := $(CC)\nrun:\n\tmpirun -n 4 ./a\n", "other"),
        ("env.openmpi", "OMPI_MCA_btl=tcp,self\nOMPI_MCA_pml=ob1\nA=1\n", "environment"),
        ("amg.readme", "mpirun -n 4 ./amg\n", "other"),
        ("rules", "1\nbcast\n1\n2\n1\n0 1 0 0\n", "rules"),
    ],
)
def test_texts_and_logs_are_no_files_of_a_stack(name, text, kind):
    assert kind_of(PurePath(name), text) == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("export OMPI_MCA_mtl_base_verbose=1\nmpirun ./a\n", ""),
        ("export MPICH_ALLTOALL_THROTTLE=0\nsrun ./a\n", ""),
        ('if [ $s == \\"A\\" || [ $s == \\"B\\"]; then export UCX_TLS="tcp"; fi\nsrun ./a\n', ""),
        ("module load openmpi/4.1.5\nmpirun --mca smsc ^cma --mca btl self,vader ./a\n", ""),
        ("module load openmpi/4.1.5\nmpirun --mca btl self,sm ./a\n", "Open MPI 4.1 has no btl sm"),
        ("module load openmpi/4.1.5\nmpirun --mca coll_xhc_priority 90 ./a\n", "4.1 has no coll_xhc"),
        ("module load openmpi/5.0.3\nmpirun --mca pml yalla ./a\n", "Open MPI 5 has no pml yalla"),
    ],
)
def test_components_and_parameters_by_version(text, said):
    seen = [*found(text, parameter_names=KNOWN), *found(text)]
    assert all(said and said in one for one in seen) and bool(seen) == bool(said), seen


def test_prrte_is_given_no_component_that_it_lacks():
    (only,) = lint({PurePath("a.sh"): "export OMPI_MCA_plm=isolated\nmpirun ./a\n"})
    assert only.remedy == "5.0 has nothing in its place: leave it out"
    (only,) = lint({PurePath("a.sh"): "export OMPI_MCA_hwloc_base_report_bindings=false\nmpirun ./a\n"})
    assert only.remedy == "leave it out"
