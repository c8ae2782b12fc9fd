"""Settings that never reach a launch, though they stand in its script: tried on 5.0.11 and the shells."""

from pathlib import PurePath

import pytest

from autotune.lint.files import kind_of, lint

BAD, EFFECT = "coll_tuned_bcst_algorithm", "has no parameter"


def effects(text, name="job.sh"):
    names = {"coll_tuned_bcast_algorithm", "pml", "btl", "coll_tuned_use_dynamic_rules"}
    return [(f.line, f.effect) for f in lint({PurePath(name): text}, "openmpi5", parameter_names=names)]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("mpirun -n 2 ./a --mca pml ucx\n", 1, "--mca pml comes after the program"),
        ("mpirun -n 2 ./a -x UCX_TLS=self,tcp\n", 1, "-x UCX_TLS=self,tcp comes after the program"),
        ("mpirun --mca pml=ucx ./a\n", 1, "'./a' is that of 'pml=ucx'"),
        (
            "mpirun -n 2 \\\n  --mca pml ob1 \\ # why\n  --mca btl self ./a\n",
            3,
            "no part of the launch in line 1",
        ),
        (
            "mpirun -n 2 \\\n  # --mca pml ob1 \\\n  --mca btl self ./a\n",
            3,
            "no part of the launch in line 1",
        ),
        ("mpirun -n 2 \\ \n  --mca btl self ./a\n", 2, "no part of the launch in line 1"),
        ("mpirun -n 2 \u2013mca pml ucx ./a\n", 1, "is no option"),
        ("mpirun -n 2 --mca\u00a0pml ucx ./a\n", 1, "is no option"),
        ("export UCX_TLS=\u201cself,tcp\u201d\nmpirun ./a\n", 1, "such quotes are part of it"),
        ("export OMPI_MCA_pml = ucx\nmpirun ./a\n", 1, "OMPI_MCA_pml is not set"),
        ("export OMPI_MCA_pml= ucx\nmpirun ./a\n", 1, "OMPI_MCA_pml is not set"),
        ("UCX_TLS=self,tcp\nmpirun -x UCX_TLS ./a\n", 1, "not exported"),
    ],
)
def test_what_the_launcher_or_the_shell_does_not_take(text, line, said):
    assert any(at == line and said in effect for at, effect in effects(text)), effects(text)


@pytest.mark.parametrize(
    "text",
    [
        "mpirun -n 2 ./a --mca x y\n",
        "mpirun -n 2 ./a -x 3\n",
        "mpirun -n 2 ./a : -n 2 --mca pml ucx ./b\n",
        "mpirun --cpu-set 0,1 --mca pml ucx -n 2 ./a\n",
        'mpirun -n 2 "$@" --mca pml ucx ./a\n',
        "mpirun -n 1 sh -c 'mpirun --mca pml ucx ./a'\n",
        "mpirun -n 2 \\\n  --mca pml ob1 \\\n  ./a\nls -x\n",
        "export OMPI_MCA_pml= OMPI_MCA_btl=self\nmpirun ./a\n",
        "UCX_TLS=self,tcp\nmpirun -x UCX_TLS=$UCX_TLS ./a\n",
        "export UCX_TLS=self,tcp\nmpirun -x UCX_TLS ./a\n",
        "# \u201cquoted\u201d words \u2013 of a comment\nmpirun ./a '\u2026\u201d'\n",
    ],
)
def test_what_arrives_is_left_alone(text):
    said = ("behind", "no part", "export", "no option", "is not set")
    assert [effect for _, effect in effects(text) if any(words in effect for words in said)] == []


@pytest.mark.parametrize(
    "text",
    [
        f"MPIRUN=${{MPIRUN:-mpirun}}\n$MPIRUN --mca {BAD} 6 ./a\n",
        f"${{MPIRUN:-mpirun}} --mca {BAD} 6 ./a\n",
        f"env -u X OMPI_MCA_{BAD}=6 mpirun ./a\n",
        f"env -i PATH=$PATH mpirun --mca {BAD} 6 ./a\n",
    ],
)
def test_it_is_found_however_it_gets_there(text):
    number = next(i for i, line in enumerate(text.splitlines(), 1) if BAD in line)
    found = effects(text)
    assert any(EFFECT in effect and BAD in effect for _, effect in found), found
    assert {line for line, _ in found} & {number, len(text.splitlines())}


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("mpi.fish", "set -x OMPI_MCA_pml ucx\nmpirun ./a\n", "other"),
        ("mpi.ps1", "mpiexec -n 2 a.exe\n", "other"),
        ("mpi.service", "[Service]\nExecStart=/usr/bin/mpirun ./a\nmpirun ./a\n", "other"),
        ("environment.d/60-mpi.conf", "OMPI_MCA_pml=ucx\n", "other"),
        ("mca-params.conf", "export OMPI_MCA_pml=ucx\n", "mca"),
        ("openmpi-mca-params.conf", "module load x\npml = ucx\n", "mca"),
    ],
)
def test_whose_file_it_is(name, text, kind):
    assert kind_of(PurePath(name), text) == kind


@pytest.mark.parametrize(
    "text",
    [
        f'export "OMPI_MCA_{BAD}=6"\nmpirun ./a\n',
        f"export 'OMPI_MCA_{BAD}'=\"6\"\nmpirun ./a\n",
        f"bsub -n 2 mpirun --mca {BAD} 6 ./a\n",
        f"valgrind --tool=x mpirun --mca {BAD} 6 ./a\n",
        f"#PBS -v A=1,OMPI_MCA_{BAD}=6\nmpirun ./a\n",
        f"#SBATCH --export=ALL,OMPI_MCA_{BAD}=6\nmpirun ./a\n",
        f'#BSUB -env "all, OMPI_MCA_{BAD}=6"\nmpirun ./a\n',
        f"#$ -v OMPI_MCA_{BAD}=6\nmpirun ./a\n",
    ],
)
def test_it_is_found_behind_functions_wrappers_and_directives(text):
    assert any(EFFECT in effect and BAD in effect for _, effect in effects(text)), effects(text)
