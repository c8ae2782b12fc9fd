"""Values of secrets by their names are in no document: command lines, lists, variables."""

import pytest

from autotune.resources.secret import HIDDEN, environment_without_secrets, is_secret, without_secrets

SECRET = ("API_TOKEN", "OMPI_MCA_my_password", "UCX_X_TOKEN", "--password", "awsSecretAccessKey", "db-passwd",
          "GITHUB_TOKEN", "PRIVATE_KEY", "apiKey", "HTTP_AUTHORIZATION", "SESSION_COOKIE")  # fmt: skip
PLAIN = ("UCX_TLS", "OMPI_MCA_btl", "UCX_IB_PKEY", "KEYBOARD", "AUTHOR", "MONKEY", "ppr", "host", "np", "")


@pytest.mark.parametrize("name", (*SECRET, *PLAIN))
def test_a_secret_is_known_by_its_name(name):
    assert is_secret(name) is (name in SECRET)


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("mpirun", "-x", "API_TOKEN=hunter2", "./a"), ("mpirun", "-x", f"API_TOKEN={HIDDEN}", "./a")),
        (("srun", "--export=ALL,A_TOKEN=hunter2,B=1"), ("srun", f"--export=ALL,A_TOKEN={HIDDEN},B=1")),
        (
            ("mpirun", "--mca", "my_password", "hunter2", "./a"),
            ("mpirun", "--mca", "my_password", HIDDEN, "./a"),
        ),
        (("mpiexec", "-genv", "X_TOKEN", "hunter2"), ("mpiexec", "-genv", "X_TOKEN", HIDDEN)),
        (("./a", "--password", "hunter2"), ("./a", "--password", HIDDEN)),
        (("./a", "--api-key=hunter2"), ("./a", f"--api-key={HIDDEN}")),
        (("./a", "--secret=a=b"), ("./a", f"--secret={HIDDEN}")),
        (("./a", "-n", "4", "--map-by", "ppr:2:node"), ("./a", "-n", "4", "--map-by", "ppr:2:node")),
        (("./a", "--token", "--np", "2"), ("./a", "--token", "--np", "2")),
    ],
)
def test_a_command_line_holds_none(words, kept):
    assert without_secrets(words) == kept


def test_an_environment_holds_none():
    found = environment_without_secrets({"UCX_X_TOKEN": "hunter2", "UCX_TLS": "sm"})
    assert found == {"UCX_X_TOKEN": HIDDEN, "UCX_TLS": "sm"}
