"""Findings hold wherever a file is used; what depends on more than it says is a note."""

from pathlib import PurePath

import pytest

from autotune.errors import ExitCode
from autotune.lint.files import lint
from autotune.lint.verbs.lint import Asked
from autotune.lint.verbs.lint import lint as verb
from tests.unit.lint.test_no_wrong_all_clear import UCX

RULES = "--mca coll_tuned_use_dynamic_rules 1 --mca coll_han_priority 0"


def sure(text, name="job.sh", mpi="", **here):
    return {finding.sure for finding in lint({PurePath(name): text}, mpi, **here)}


OLD = [
    "mpirun --mca btl_openib_allow_ib 1 ./a\n",
    "export OMPI_MCA_plm_rsh_agent=ssh\nmpirun ./a\n",
    "mpirun -N 2 --map-by ppr:2:node ./a\n",
    "mpirun --mca btl openib,self ./a\n",
    "mpirun --mca btl openib,sm,self ./a\n",  # each version lacks another one of them, those before 4 none
]


@pytest.mark.parametrize("text", OLD)
def test_what_holds_for_one_version_is_a_note_until_somebody_names_it(text):
    assert sure(text) == {False}
    assert True in sure("module load openmpi/5.0.3\n" + text)
    assert True in sure(text, mpi="openmpi5")
    assert sure("module load openmpi/1.10.7\n" + text) <= {False}


@pytest.mark.parametrize(
    "text",
    [
        "export OMPI_MCA_pml=ob1 UCX_TLS=rc\nmpirun ./a\n",  # the program may use UCX itself
        "mpirun --mca pml ucx --mca btl tcp,self ./a\n",  # one-sided communication may use it
        "export UCX_TLS=rc,new_one\n",  # of another build
        "export I_MPI_FABRICS=shm:dapl\n",  # of an Intel MPI before 2019
        "export FI_LOG_LEVEL=1\n",  # words of one version
        "export OMPI_MCA_coll_tuned_bcast_algorithm=6\n",  # for a launch that may set the switch
        "source env.sh\nmpirun --mca coll_tuned_bcast_algorithm 6 ./a\n",
        "export UCX_TLS=tcp OMPI_MCA_osc_ucx_tls=tcp\n",  # so that osc ucx is taken
        f"mpirun {RULES} --mca coll_tuned_dynamic_rules_filename /not/here ./a\n",  # another machine's
    ],
)
def test_what_depends_on_build_machine_or_program_is_a_note(text):
    assert sure(text, exists=lambda name: False) == {False}


@pytest.mark.parametrize(
    "text",
    [
        "mpirun --mca coll_tuned_bcast_algorithm 6 ./a\n",
        "export UCX_RNDV_SCHEME=get_zcpy\n",
        "export UCX_ZCOPY_THRESH=4x\n",
        "export UCX_RNDV_TRESH=64k\n",
        "export OMIP_MCA_pml=ucx\n",
        "export OMPI_MCA_btl=self,^tcp\nmpirun ./a\n",
        "export OMPI_MCA_coll=tuned\nmpirun ./a\n",
        "srun -x UCX_TLS=rc ./a\n",
        "srun --bind-to core ./a\n",
        "UCX_TLS=rc\nmpirun ./a\n",
        "mpirun --mca btl_tcp_if_include a --mca btl_tcp_if_exclude b ./a\n",
        f"mpirun {RULES} --mca coll_tuned_bcast_algorithm 99 ./a\n",
        "module load intel-oneapi-mpi\nexport I_MPI_FABRICS=shm:dapl\n",
        "export I_MPI_ADJUST_BCAST=binomial\n",
        "#!/bin/bash\r\nexport UCX_TLS=rc\r\nmpirun ./a\r\n",
    ],
)
def test_a_fault_in_an_otherwise_good_script_is_a_finding(text):
    assert True in sure(text, knobs=UCX)


def test_a_fragment_of_parameters_may_be_for_any_version():
    text = "btl_openib_max_btls = 20\n"
    assert sure(text, "amca-param-sets/openib") == {False}
    assert sure(text, "openmpi-mca-params.conf") == {True}
    assert sure(text, "openmpi-5.0.3/openib") == {True}


def test_a_framework_is_no_remedy_for_a_number():
    name = "OMPI_MCA_mtu"
    (one,) = lint({PurePath("job.sh"): f"export {name}=4096\n"})
    assert "no parameter mtu" in one.effect
    assert "mtl" not in one.remedy


def test_notes_are_counted_and_shown_on_request_and_decide_no_exit_code(tmp_path, capsys):
    script = tmp_path / "job.sh"
    script.write_text(OLD[0])
    assert verb((script,), Asked()) == ExitCode.WELL
    said = capsys.readouterr().out
    assert "0 findings" in said and "1 note not shown: --all" in said and "openib" not in said
    assert verb((script,), Asked(everything=True)) == ExitCode.WELL
    assert f"{script}:1: MPI304 note: Open MPI 5 has no btl_openib" in capsys.readouterr().out
    assert verb((script,), Asked("openmpi5")) == ExitCode.FINDING
