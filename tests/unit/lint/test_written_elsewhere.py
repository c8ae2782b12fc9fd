"""Settings that scripts and recipes write into files: judged as in these, or no all-clear is given."""

from pathlib import PurePath

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from autotune.lint.files import lint, unjudged
from tests.unit.lint.test_no_wrong_all_clear import UCX

BAD = "UCX_RNDV_SCHEME=get_zcpy"


def lines(text, name):
    return [f.line for f in lint({PurePath(name): text}, knobs=UCX) if f.sure]


PLAYBOOK = """- hosts: compute
  tasks:
    - name: parameters
      ansible.builtin.copy:
        dest: /etc/openmpi/openmpi-mca-params.conf
        content: |
          pml = ucx
          btl = tcp,slf
    - ansible.builtin.lineinfile:
        path: /etc/profile.d/ucx.sh
        line: "export UCX_RNDV_SCHEME=get_zcpy"
    - blockinfile:
        path: /etc/environment
        block: |
          UCX_TLS=rc,sm
          UCX_RNDV_SCHEME=get_zcpy
    - lineinfile:
        dest: /opt/ucx/etc/ucx/ucx.conf
        line: UCX_RNDV_SCHEME={{ scheme }}
"""


def test_files_that_ansible_writes():
    assert lines(PLAYBOOK, "playbook.yml") == [8, 11, 16]
    assert lines(PLAYBOOK.replace("get_zcpy", "get_zcopy").replace("slf", "self"), "playbook.yml") == []


@pytest.mark.parametrize(
    "command",
    [
        f'echo "export {BAD}" >> /root/.bashrc',
        f"echo 'export {BAD}' >> /etc/profile.d/mpi.sh",
        f"echo {BAD} >> /etc/environment",
        f"printf '{BAD}' | tee -a /opt/site/job.env",
        f"true && echo 'export UCX_TLS=rc' >> ~/.bashrc && echo 'export {BAD}' >> ~/.bashrc",
        f"echo {BAD} > /etc/ucx/ucx.conf",
        f"cat >> /etc/profile.d/ucx.sh <<X\nexport {BAD}\nX",
    ],
)
def test_files_that_a_command_writes(command):
    found = [2 + command.count("\n") // 2]
    assert lines(f"#!/bin/sh\n{command}\n", "setup.sh") == found
    assert not list(unjudged({PurePath("setup.sh"): f"#!/bin/sh\n{command}\n"}))
    if "<<" not in command:
        assert lines(f"FROM a\nRUN {command}\n", "Dockerfile") == found


def test_lines_of_a_dockerfile_that_goes_on():
    first = 'FROM a\nRUN echo "export OMPI_MCA_pml=ucxx" >> /root/.bashrc && \\\n'
    text = f'{first}    echo "export {BAD}" >> /etc/profile\n'
    assert lines(text, "Dockerfile") == [2, 3]


def test_what_a_task_prolog_prints_is_set():
    text = f'#!/bin/sh\necho export {BAD}\necho "export OMPI_MCA_BTL=self"\necho Try export {BAD}\n'
    assert lines(text, "taskprolog.sh") == [2, 3]


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        ("a.sh", 'echo "UCX_TLS=rc" >> /etc/default/slurmd\n', [2]),
        ("a.sh", "sed -i 's/^.*$/UCX_NET_DEVICES=mlx5_0:1/' /etc/sysconfig/mpi\n", [2]),
        ("a.sh", "cat > /opt/site.rc <<X\nexport UCX_TLS=rc\nX\n", [3]),
        ("Dockerfile", "RUN echo 'export UCX_TLS=rc' >> /opt/env.rc\n", [2]),
        ("a.yml", "- copy:\n    dest: /opt/x\n    content: |\n      UCX_IB_SL=3\n", [5]),
        ("a.yml", "- lineinfile: {path: /etc/slurm/prolog, line: 'echo export UCX_TLS=rc'}\n", [2]),
        ("a.sh", 'echo "UCX_TLS=$UCX_TLS"\n', []),
        ("a.sh", 'echo "UCX_TLS=rc" >> results.txt\n', []),
        ("a.sh", "echo UCX_TLS=${UCX_TLS} >> site.rc\n", []),
        ("a.sh", "echo export UCX_TLS=\\$MY >> site.rc\n", []),
        ("a.yml", "- copy: {dest: /etc/profile.d/a.sh, content: 'export UCX_TLS={{ tls }}'}\n", []),
        ("a.sh", "# echo UCX_TLS=rc >> site.rc\n", []),
        ("a.sh", "UCX_FLAGS=-g\nUCX_TLS=rc ./a\nexport UCX_LOG_LEVEL=warn\n", []),
        ("a.sh", "cat > job.sh <<X\nexport UCX_TLS=rc\nmpirun ./a\nX\n", []),
        ("a.sh", 'if [ "$UCX_TLS" = "rc" ]; then echo hi > a; fi\n', []),
    ],
)
def test_a_setting_that_is_not_followed_is_named(name, text, left):
    head = {"a.sh": "#!/bin/bash\n", "Dockerfile": "FROM a\n", "a.yml": "---\n"}[name]
    assert [line for _, line, _ in unjudged({PurePath(name): head + text})] == left


def test_what_is_not_followed_is_no_all_clear(tmp_path, capsys):
    script = tmp_path / "setup.sh"
    script.write_text("#!/bin/bash\necho 'UCX_TLS=rc' >> /etc/default/slurmd\n")
    assert main(["lint", str(script)]) == ExitCode.UNKNOWN
    assert f"not judged: {script}:2: UCX_TLS is set in a way" in capsys.readouterr().err
    script.write_text("#!/bin/bash\necho 'UCX_TLS=rc' >> /etc/default/slurmd\nexport OMPI_MCA_BTL=self\n")
    assert main(["lint", str(script)]) == ExitCode.FINDING
