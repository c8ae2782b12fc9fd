"""A setting that ``lint`` cannot follow is named, and its script gets no all-clear."""

from pathlib import PurePath

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from autotune.lint.files import unjudged

OPTIONS = "--mca btl tcp,slf"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('echo "UCX_TLS=rc" >> /etc/default/slurmd\n', [2]),
        ("sed -i 's/^.*$/UCX_NET_DEVICES=mlx5_0:1/' /etc/sysconfig/mpi\n", [2]),
        ("cat > /opt/site.rc <<X\nexport UCX_TLS=rc\nX\n", [3]),
        ("echo 'export UCX_TLS=rc' | tee -a /etc/profile.d/mpi.sh\n", [2]),
        ("cat > ~/.openmpi/mca-params.conf <<X\npml = ucx\nX\n", [2]),
        ("echo 'pml = ucx' | sudo tee -a /etc/openmpi/openmpi-mca-params.conf\n", [2]),
        ("cat > job.sh <<X\nexport UCX_TLS=rc\nmpirun ./a\nX\n", [3]),
        (f"A=({OPTIONS})\nmpirun ${{A[@]}} ./a\n", [2]),
        ('A+=("--mca" "btl" "tcp,slf")\nmpirun "${A[@]}" ./a\n', [2]),
        (f"OPTS='{OPTIONS}'\nmpirun $OPTS ./a\n", [2]),
        ("OPTS='-x UCX_TLS=rc'\nmpirun $OPTS ./a\n", [2]),
        (f'run() {{ mpirun "$@"; }}\nrun -n 2 {OPTIONS} ./a\n', [3]),
        (f"bash -c 'mpirun {OPTIONS} ./a'\n", [2]),
        ("bash -c 'export UCX_TLS=rc; mpirun ./a'\n", [2]),
        (f"sbatch --wrap='mpirun {OPTIONS} ./a'\n", [2]),
        (f"bash <<X\nmpirun {OPTIONS} ./a\nX\n", [3]),
        (f'echo "mpirun {OPTIONS} ./a"\n', []),
        ('echo "UCX_TLS=$UCX_TLS"\n', []),
        ('echo "UCX_TLS=rc" >> results.txt\n', []),
        ("echo UCX_TLS=${UCX_TLS} >> site.rc\n", []),
        ("echo export UCX_TLS=\\$MY >> site.rc\n", []),
        ("# echo UCX_TLS=rc >> site.rc\n", []),
        ("UCX_FLAGS=-g\nUCX_TLS=rc ./a\nexport UCX_LOG_LEVEL=warn\n", []),
        ('if [ "$UCX_TLS" = "rc" ]; then echo hi > a; fi\n', []),
        (f"if a; then mpirun {OPTIONS} -x UCX_TLS=rc ./a; fi\n", []),
    ],
)
def test_a_setting_that_is_not_followed_is_named(text, left):
    assert [line for _, line, _ in unjudged({PurePath("a.sh"): "#!/bin/bash\n" + text})] == left


def test_what_is_not_followed_is_no_all_clear(tmp_path, capsys):
    script = tmp_path / "setup.sh"
    script.write_text("#!/bin/bash\necho 'UCX_TLS=rc' >> /etc/default/slurmd\n")
    assert main(["lint", str(script)]) == ExitCode.UNKNOWN
    assert f"not judged: {script}:2: UCX_TLS is set or written in a way" in capsys.readouterr().err
    script.write_text("#!/bin/bash\necho 'UCX_TLS=rc' >> /etc/default/slurmd\nexport OMPI_MCA_BTL=self\n")
    assert main(["lint", str(script)]) == ExitCode.FINDING
