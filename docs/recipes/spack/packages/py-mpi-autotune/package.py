# Not run here. The version is a checkout: spack dev-build py-mpi-autotune@main, or set git to your copy.
from spack.package import *


class PyMpiAutotune(PythonPackage):
    """An adaptive autotuner for MPI collectives."""

    homepage = "README.md"  # of the source distribution
    git = "."

    version("main", branch="main")

    license("Apache-2.0")

    depends_on("python@3.11:3.13", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("mpi", type=("build", "run"))
    with default_args(type=("build", "run")):
        depends_on("py-ax-platform@1.3")
        depends_on("py-botorch@0.18")
        depends_on("py-gpytorch@1.15:")
        depends_on("py-torch@2.13: ~cuda")
        depends_on("py-hydra-core@1.3.8:1.3")
        depends_on("py-omegaconf@2.3:")
        depends_on("py-google-re2@1.1:")
        depends_on("py-mpi4py@4.1:")
        depends_on("py-numpy@2:")
        depends_on("py-pandas@2.2:")
        depends_on("py-pydoe3@1.6:")
        depends_on("py-scipy@1.15:")
        depends_on("py-threadpoolctl@3.5:")
        depends_on("py-plotly@6:")
        depends_on("py-jinja2@3.1:")
        depends_on("py-rich@13:")
        depends_on("py-typer@0.15:")
        depends_on("py-pyyaml@6:")
        depends_on("py-submitit@1.5:")
        depends_on("py-tree-sitter@0.25:")
        depends_on("py-tree-sitter-bash@0.25:")
