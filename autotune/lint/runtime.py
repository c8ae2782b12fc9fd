"""Parameters of the launcher: 4.x has a runtime of its own, 5.0 has PRRTE, with other names and sources.

Read in ``ompi_info --all`` of 4.1.8 and ``prte_info -a`` of 5.0.11, and tried on both: 5.0 takes parameters
of its launcher from the command line and from ``PRTE_MCA_*``, never from ``OMPI_MCA_*``, from Open MPI's
parameter files or from files for ``--tune``.
"""

import re
from collections.abc import Iterator, Mapping

from autotune.lint.assignment import Assignment, Source
from autotune.lint.finding import Finding

OPTIONS: Mapping[str, str] = {
    "rmaps_base_mapping_policy": "--map-by {}",
    "rmaps_base_ranking_policy": "--rank-by {}",
    "rmaps_base_oversubscribe": "--map-by :OVERSUBSCRIBE",
    "rmaps_base_no_oversubscribe": "--map-by :NOOVERSUBSCRIBE",
    "rmaps_base_cpus_per_rank": "--map-by :PE={}",
    "rmaps_base_display_map": "--display map",
    "rmaps_base_pernode": "--map-by ppr:1:node",
    "rmaps_base_n_pernode": "--map-by ppr:{}:node",
    "rmaps_base_n_persocket": "--map-by ppr:{}:package",
    "hwloc_base_binding_policy": "--bind-to {}",
    "hwloc_base_report_bindings": "--report-bindings",
    "hwloc_base_cpu_list": "--cpu-list {}",
    "hwloc_base_use_hwthreads_as_cpus": "--map-by :HWTCPUS",
    "orte_tag_output": "--output tag",
    "orte_timestamp_output": "--output timestamp",
    "orte_xml_output": "--output xml",
}
"""Parameter of 4.x → the option of ``mpirun`` that says the same to 5.0."""

NAMES: Mapping[str, str] = {
    "rmaps_base_mapping_policy": "rmaps_default_mapping_policy",
    "rmaps_base_ranking_policy": "rmaps_default_ranking_policy",
    "hwloc_base_binding_policy": "hwloc_default_binding_policy",
    "orte_rsh_agent": "plm_ssh_agent",
    **{
        f"orte_{name}": f"prte_{name}"
        for name in (
            *("allocation_required", "allowed_exit_without_sync", "assume_same_shell", "daemon_cores"),
            *("daemon_fail", "daemon_fail_delay", "default_dash_host", "default_hostfile", "execute_quiet"),
            *("keep_fqdn_hostnames", "launch_agent", "local_tmpdir_base", "max_vm_size", "no_session_dirs"),
            *("progress_thread_debug", "remote_tmpdir_base", "report_child_jobs_separately"),
            *("report_silent_errors", "set_default_slots", "show_resolved_nodenames", "stat_history_size"),
            *("timeout_for_stack_trace", "tmpdir_base"),
        )
    },
}
"""Parameter of 4.x → its name in PRRTE; ``plm_rsh_*`` is ``plm_ssh_*``, ``oob_tcp_*`` kept its names."""

_OOB = frozenset(
    {
        *("dynamic_ipv4_ports", "dynamic_ipv6_ports", "exclude", "if_exclude", "if_include", "include"),
        *("keepalive_intvl", "keepalive_probes", "keepalive_time", "max_recon_attempts", "peer_limit"),
        *("disable_ipv4_family", "disable_ipv6_family", "peer_retries", "rcvbuf", "retry_delay", "sndbuf"),
        *("static_ipv4_ports", "static_ipv6_ports"),
    }
)
"""What ``oob_tcp`` of PRRTE has: ``oob_tcp_listen_mode`` and others of 4.1 have nothing in their place."""

_OLD = re.compile(r"orte_\w+|plm_rsh_\w+|rmaps_base_(?!verbose)\w+|hwloc_base_(?!verbose|mem_bind)\w+")
_NEW = re.compile(r"prte_\w+|plm_ssh_\w+|(rmaps|hwloc)_default_\w+")
_EITHER = re.compile(r"(oob|plm|ras|odls|rmaps|ess|errmgr|state|iof)_\w+")


def of_the_runtime(name: str) -> bool:
    """Whether a parameter belongs to the launcher of some version."""
    return any(pattern.fullmatch(name) for pattern in (_OLD, _NEW, _EITHER))


def runtime(a: Assignment, version: tuple[int, int]) -> Iterator[Finding]:
    """What the launcher makes of a parameter of its own."""
    old, new = _OLD.fullmatch(a.name), _NEW.fullmatch(a.name)
    if version < (5, 0):
        if new:
            yield a.finding(f"{a.name} is of Open MPI 5: 4.1 silently ignores it", _before(a.name))
        return
    if a.source is Source.COMMAND and (not old or a.name.startswith("plm_rsh_")):
        return  # mpirun of 5.0 translates plm_rsh_* there
    effect = f"{a.name} in {a.source} is silently ignored: the launcher of Open MPI 5 is PRRTE"
    if old and a.source is Source.COMMAND:
        effect = f"{a.name} is silently ignored: it is of Open MPI 4"
    yield a.finding(effect, _after(a))


def _after(a: Assignment) -> str:
    name = NAMES.get(a.name, a.name.replace("plm_rsh_", "plm_ssh_"))
    if a.name == "oob_tcp_disable_family":  # one parameter for both families in 4.1: a word or its number
        family = "ipv6" if a.value.lower() in ("ipv6", "6") else "ipv4"
        return f"export PRTE_MCA_oob_tcp_disable_{family}_family=1"
    if _OLD.fullmatch(name) or (name.startswith("oob_tcp_") and name.removeprefix("oob_tcp_") not in _OOB):
        name = ""
    option = OPTIONS.get(a.name, "").format(a.value)
    ways = [f"mpirun {option}"] if option else []
    ways += [f"export PRTE_MCA_{name}={a.value}"] if name else []
    return ", or ".join(ways) or "5.0 has nothing in its place: leave it out"


def _before(name: str) -> str:
    back = {new: old for old, new in NAMES.items() if old != "orte_rsh_agent"}
    old = back.get(name, name.replace("plm_ssh_", "plm_rsh_"))
    return f"write {old}" if old != name else "4.1 has nothing in its place: leave it out"
