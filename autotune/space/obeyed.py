"""Names of variables by which programs can be made to load, start or write something.

A search space (step 2 of the data flow) may come from anybody's file or journal, and recommended settings are
exported to scripts that shells execute (step 12). Whoever sets one of these variables decides which code is
loaded or started, or which file is written. So neither a space nor a scenario's file may contain any of them.
Names are compared without regard to case, because some libraries also ignore case.
"""

import re
from fnmatch import translate

OBEYED = {
    "the dynamic loader and the C library": (
        *("LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "HOSTALIASES", "LOCALDOMAIN"),
        *("LOCPATH", "MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS", "TMPDIR"),
        *("TZDIR", "MEMUSAGE_OUTPUT", "PCPROFILE_OUTPUT", "SEGFAULT_OUTPUT_NAME", "LTDL_LIBRARY_PATH"),
        *("LIBPATH", "SHLIB_PATH", "TMP", "TEMP", "TEMPDIR"),
    ),
    "a shell, as it starts or shows its prompt": (
        *("BASH_*", "BASHOPTS", "SHELLOPTS", "ENV", "PROMPT_*", "PS[0-9]", "IFS", "PATH", "CDPATH", "FPATH"),
        *("ZDOTDIR", "HIST*", "SHELL", "HOME", "OLDPWD", "PWD", "EXECIGNORE", "GLOBIGNORE", "INPUTRC"),
        *("MAIL", "MAILPATH", "TERMINFO*", "TERMCAP", "FCEDIT", "COMSPEC", "USER", "LOGNAME"),
        *("NULLCMD", "READNULLCMD"),
    ),
    "programs that start an editor, a pager or another helper": (
        *("*EDITOR", "*_SSH", "*_RSH", "*_COMMAND", "CONFIG_SITE", "CONFIG_SHELL", "VIMINIT", "EXINIT"),
        *("HGRCPATH", "VISUAL", "PAGER", "*_PAGER", "MANPAGER", "BROWSER", "LESS*", "GIT_*", "SSH_*"),
        *("*_ASKPASS", "MAKEFLAGS", "MAKEFILES", "MFLAGS", "GNUMAKEFLAGS", "TAR_OPTIONS", "TAPE"),
        *("RSYNC_*", "PDSH_*", "DSH_*", "WGETRC", "CURL_HOME", "*_proxy", "*_PROXY", "KRB5*"),
        *("XDG_*", "DISPLAY", "XAUTHORITY", "DBUS_*", "SYSTEMD_*"),
    ),
    "a batch system, whose commands start what they name": (
        *("SLURM_*", "SBATCH_*", "SALLOC_*", "SRUN_*", "PBS_*", "LSB_*", "LSF_*", "SGE_*", "FLUX_*"),
        *("PALS_*", "COBALT_*", "OAR_*", "PJM_*", "JSM_*", "LOADL_*", "SPANK_*", "SQUEUE_*", "SINFO_*"),
        *("SCANCEL_*", "SCONTROL_*", "SACCT_*"),
    ),
    "the runtime of a container": (
        *("SINGULARITY*", "APPTAINER*", "DOCKER_*", "PODMAN_*", "SHIFTER*", "ENROOT_*"),
    ),
    "libraries that load what they name": (
        *("HWLOC_PLUGINS_PATH", "OPENSSL_*", "SSL_*", "CUDA_INJECTION*", "NVTX_INJECTION*", "KOKKOS_*LIB*"),
        *("ROCP*", "ROCTRACER_*", "OCL_ICD_*", "VK_*", "LIBGL_*", "QT_*", "GTK_*", "GIO_*", "*_PLUGIN_PATH"),
        *("INTEL_LIBITTNOTIFY*", "INTEL_JIT_PROFILER*", "UR_ADAPTERS_*", "ZE_ENABLE_ALT_DRIVERS", "GST_*"),
        *("*_DRIVER_PATH", "*_DRIVERS_PATH", "SASL_PATH", "LDAPCONF"),
    ),
    "what measures or checks a program, and writes to the file that they name": (
        *("*SAN_OPTIONS", "HEAPPROFILE", "HEAPCHECK", "CPUPROFILE", "MALLOC_CONF", "GCOV_*"),
        *("LLVM_PROFILE_*", "VALGRIND_*", "GMON_OUT_PREFIX", "SCOREP_*", "EXTRAE_*"),
        *("VT_*", "CALI_*", "DARSHAN_*", "TAU_*", "IPM_*", "MPIP", "TVDSVRLAUNCHCMD"),
    ),
    "interpreters": (
        *("PYTHON*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "NODE_*", "NPM_*", "LUA_*", "GUILE_*", "TCL*"),
        *("R_*", "JULIA_*", "PHP*", "AWK*", "*CLASSPATH", "*JAVA_OPTIONS", "JAVA_*", "JDK_*", "OCAML*"),
        *("CONDA_*", "PIP_*", "UV_*"),
    ),
    "compilers": (
        *("CC", "CXX", "FC", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
        *("*_EXEC_PREFIX", "COMPILER_PATH", "OMPI_CC", "OMPI_CXX", "OMPI_FC", "OMPI_*FLAGS", "OMPI_LIBS"),
        *("MPICH_CC", "MPICH_CXX", "MPICH_FC", "I_MPI_CC", "I_MPI_CXX", "I_MPI_FC"),
        *("CMAKE_*", "GOFLAGS", "CARGO_*", "RUSTC*", "PKG_CONFIG*"),
    ),
    "environment modules": (
        *("MODULE*", "LMOD_*", "LOADEDMODULES", "_LMFILES_", "_ModuleTable*", "__LMOD_*", "__MODULES_*"),
    ),
    "an MPI library, which loads or starts what they name": (
        *("OPAL_*PREFIX", "OPAL_*DIR", "OMPI_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX", "PMIX_*DIR", "PRTE_*DIR"),
        *("MPI4PY_*", "*_ENABLE_PTRACER"),
        *("*component_path", "*param_file*", "*envar_file*", "*env_list*", "*_agent", "*_preload_*"),
        *("*plm_*_args", "*EXTRA_ARGS", "*filem_*", "*crs_*", "*_user_debugger", "I_MPI_GTOOL", "MPIEXEC_*"),
        *("*default_hostfile", "*HOST_FILE", "*HOSTFILE"),
        *("UCX_MODULE_*", "UCX_GDB_*", "UCX_ERROR_MAIL_*", "UCX_CONFIG_DIR", "UCC_*PATH"),
        *("UCC_CONFIG_FILE", "FI_PROVIDER_PATH", "NCCL_*PLUGIN", "NCCL_CONF_*"),
        *("*HYDRA_*EXEC", "I_MPI_ROOT", "I_MPI_*LIBRARY", "I_MPI_*_PATH", "OMP_TOOL*", "*_TOOLS_LIB*"),
        *("HYDRA_*", "PMI_*", "I_MPI_HYDRA_*", "I_MPI_*TRACE_LIBS", "I_MPI_LIBRARY_KIND", "I_MPI_*GTOOL*"),
        "I_MPI_COMPILER_*",
    ),
    "an MPI library, which writes to the file that they name": (
        *("UCX_LOG_FILE", "UCX_STATS_DEST", "UCX_PROFILE_FILE", "UCX_VFS_*", "NCCL_*FILE", "I_MPI_*OUTPUT*"),
        *("I_MPI_*FILE", "*_params_file", "*monitoring_filename", "*_output_*file*", "*show_mca_params_file"),
        *("*_stacktrace_output", "*_DEBUG_FILE*", "*_LOG_FILE", "MPICH_DBG_*"),
        *("*tmpdir_base", "*_report_uri", "UCX_MEMTRACK_DEST", "UCC_PROFILE_*", "UCX_PROFILE_*"),
        *("UCX_STATS_*", "I_MPI_*DUMP*", "I_MPI_STATS*", "*COREDUMP*", "*DUMP_TUNING*", "*_DUMP"),
        *("FI_LOG_OUTPUT", "*_v_output", "*mca_base_verbose", "*mca_verbose"),
    ),
}
"""Maps a description of programs to patterns of the names of the variables that these programs obey.

Sources: ld.so(8), "Secure-execution mode"; bash(1), zshparam(1), perlrun(1), python(1), node(1), make(1),
gcc(1), ssh(1), srun(1), rsync(1), "Environment"; and the libraries' own lists (``ompi_info --all``,
``ucx_info -cf``, and the manuals of the others)."""

_ANY = {who: re.compile("|".join(map(translate, names)), re.IGNORECASE) for who, names in OBEYED.items()}

_OF_A_LIBRARY = re.compile(
    r"(?:(?:OMPI|PRTE|PMIX|ORTE)_MCA_|UCX_|UCC_|HCOLL_|SHARP_|I_MPI_|MPICH_|MPIR_|MV2_|FI_|PSM2?_|PSM3_|NCCL_|RCCL_"
    r"|[a-z0-9_]+$).*"
)
"""Matches variables of MPI libraries and of the libraries below them; names in lower case are MCA
parameters."""
_NAMES_A_PLACE = re.compile(
    r".*_(?:\w*FILE(?:NAME)?S?|\w*DIR|DIRS|DIRECTORY|PATH|DEST|DESTINATION|COMMAND|CMD|EXEC|EXECUTABLE|LAUNCHER"
    r"|LIBRARY|LIBRARIES|LIBS?|\w*PRELOAD|PREFIX|SCRIPT|SOCKET_NAME|URI|FILE_PREFIX\w*|\w*DUMP)",
    re.IGNORECASE,
)
"""Matches the usual names of variables that name a file, a folder or a program; ``OBEYED`` contains other
such names."""
_READ = re.compile(
    r".*(?:_rules_filename|_rules_file|TUNING_JSON_FILE(?:_GPU)?|I_MPI_TUNING_BIN|\w*_TOPO_FILE|_IPC_PATH)",
    re.IGNORECASE,
)
"""Matches variables that are allowed as exceptions: files that are only read as tables of numbers, and paths
of messages."""


def obeyed_by(name: str) -> str:
    """Return in words which program or library obeys a variable of this name; empty if none is known."""
    if who := next((who for who, names in _ANY.items() if names.fullmatch(name)), ""):
        return who
    placed = _OF_A_LIBRARY.fullmatch(name) and _NAMES_A_PLACE.fullmatch(name) and not _READ.fullmatch(name)
    return "an MPI library, which loads, reads or writes what they name" if placed else ""
