"""MPI: host files, and a launcher that needs no ssh.

Every member is a place. Rank 0 runs the command under `mpirun`, or as it stands when it calls
mpirun itself; the others wait. Where mpirun would ssh to a host it calls `rsh`, which hands the
command to the place of that name, so every MPI rank runs inside its own member, with that
member's GPUs, limits and variables. A hand-over is a line written into a named pipe of the
directory that the members of one machine share; places on several machines need a carrier between
those pipes. Works with Open MPI (4 and 5) and with MPICH and its kin.
"""

import re
from typing import Dict

from dromon.frameworks.framework import Command, Framework, is_loopback, total
from dromon.frameworks.world import Member, World

LAUNCHERS = re.compile(
    r"(^|[\s/;&|(])(mpirun|mpiexec|mpiexec\.hydra|prterun|orterun)(?=$|[\s;&|)])"
)

# What mpirun calls in place of ssh: [-options] place command...
RSH = """\
#!/bin/sh
dir=${0%/*}
while [ "${1#-}" != "$1" ]; do shift; done
place=$1
shift
[ -z "$OPAL_PREFIX" ] || set -- "OPAL_PREFIX='$OPAL_PREFIX'; export OPAL_PREFIX; $*"
[ "$place" != "$DROMON_PLACE" ] || exec sh -c "$*"
# MPICH names itself as this machine does; elsewhere that name may mean nothing.
case "$*" in *--control-port*)
    set -- "$(printf '%s' "$*" | sed "s|\\(--control-port \\)[^ :]*:|\\1$DROMON_LAUNCHER:|")" ;;
esac
until [ -p "$dir/$place" ]; do sleep 0.05; done
umask 077
script=$dir/$place.$$
mkfifo "$script.end"
exec 3<>"$script.end"
printf '%s\\n' "( $* )" "echo \\$? 1<>'$script.end'" >"$script"
echo "$script" 1<>"$dir/$place"
read -r code <&3
rm -f "$script" "$script.end"
exit "$code"
"""

# What a waiting member runs, with the directory as $0: the scripts named in its pipe, until the
# end. It holds its pipe open both ways before anybody can see it: no writer waits, no line is lost.
PLACE = """\
mkdir -p "$0"
pipe=$0/$DROMON_PLACE
rm -f "$pipe" "$pipe.new"
mkfifo -m 600 "$pipe.new" || exit
exec 3<>"$pipe.new"
mv "$pipe.new" "$pipe"
[ ! -e "$0/ended" ] || exit 0
while read -r script <&3 && [ "$script" != end ]; do sh "$script" 3<&-; done
"""

# What rank 0 runs, with the directory as $0: the command, then the end of all places.
LAUNCH = """\
trap : TERM INT
"$@"
code=$?
: >"$0/ended"
for place in $DROMON_PLACES; do
    [ ! -p "$0/$place" ] || echo end 1<>"$0/$place"
done
exit $code
"""


def hostfile(world: World) -> str:
    """As Open MPI reads it."""
    return "".join(f"{m.name} slots={m.processes}\n" for m in world.members)


def machinefile(world: World) -> str:
    """As MPICH's Hydra reads it."""
    return "".join(f"{m.name}:{m.processes}\n" for m in world.members)


def files(world: World, member: Member) -> Dict[str, str]:
    if member.rank != 0:
        return {}
    return {"hostfile": hostfile(world), "machinefile": machinefile(world), "rsh": RSH}


def command(
    world: World, member: Member, process: int, command: Command, directory: str
) -> Command:
    if process:
        return ["true"]  # mpirun starts the ranks, `processes` of them in every place
    if member.rank != 0:
        return ["sh", "-c", PLACE, directory]
    words = ["bash", "-c", command] if isinstance(command, str) else list(command)
    if not _launches(command):
        words = ["mpirun", "-n", str(total(world.members)), *words]
    return ["sh", "-c", LAUNCH, directory, *words]


def _launches(command: Command) -> bool:
    """Whether it calls mpirun itself, or at least says the word."""
    line = command if isinstance(command, str) else " ".join(command)
    return LAUNCHERS.search(line) is not None


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    hosts, machines = f"{directory}/hostfile", f"{directory}/machinefile"
    rsh = f"{directory}/rsh"
    variables = {
        "DROMON_PLACE": member.name,
        "DROMON_PLACES": " ".join(m.name for m in world.members[1:]),
        "DROMON_LAUNCHER": world.members[0].host,
        # Open MPI 5
        "PRTE_MCA_prte_default_hostfile": hosts,
        "PRTE_MCA_plm_ssh_agent": rsh,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",  # only rank 0 has the pipes of all places
        # Places of one machine are hosts to MPI: it would bind the ranks of all to the same core.
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        # Open MPI 4
        "OMPI_MCA_orte_default_hostfile": hosts,
        "OMPI_MCA_plm_rsh_agent": rsh,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",  # else its daemon leaves the place
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # MPICH
        "HYDRA_HOST_FILE": machines,
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": rsh,
        "HYDRA_ENV": "none",  # a rank has the variables of its place, not those of rank 0
    }
    if len({m.host for m in world.members}) < len(world.members):
        # Its two-level collectives wait for ever when two "hosts" are one machine.
        variables["OMPI_MCA_coll_han_priority"] = "0"
    crowded = [m.host for m in world.members if m.processes > 1]
    if len(set(crowded)) < len(crowded):
        # Ranks name what they share in memory by host and number within it: those of two "hosts"
        # on one machine would take each other's, and crash.
        variables["OMPI_MCA_btl"] = "^sm,vader"
        variables["OMPI_MCA_osc"] = "^sm"
    if is_loopback(world):
        variables["OMPI_MCA_btl_tcp_if_include"] = "lo"
    return variables


MPI = Framework(
    environment,
    reserved=frozenset(
        [
            "PRTE_MCA_prte_default_hostfile",
            "PRTE_MCA_plm_ssh_agent",
            "PRTE_MCA_plm_ssh_no_tree_spawn",
            "OMPI_MCA_orte_default_hostfile",
            "OMPI_MCA_plm_rsh_agent",
            "OMPI_MCA_plm_rsh_no_tree_spawn",
            "OMPI_MCA_orte_leave_session_attached",
            "HYDRA_HOST_FILE",
            "HYDRA_LAUNCHER",
            "HYDRA_LAUNCHER_EXEC",
            "HYDRA_ENV",
        ]
    ),
    roles=frozenset(["worker"]),
    files=files,
    command=command,
)
