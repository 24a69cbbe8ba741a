"""A node's own machine: a network namespace, control groups, and a view of the file system.

/run, /var/lib and /var/log are the node's own; everything else is this machine's, so that a
directory has the same path on every node. A sleeping process holds the view open.
"""

import os
import subprocess
import time
from pathlib import Path

from dromon.errors import EngineError
from testbeds import process
from testbeds.kubernetes import cgroups, network
from testbeds.kubernetes.plan import Plan
from testbeds.kubernetes.programs import Programs
from testbeds.process import Process

SECONDS = 20.0
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOUNT = """
set -e
mount -t tmpfs tmpfs /run
mount --bind "$0/lib" /var/lib
mount --bind "$0/log" /var/log
touch "$0/mounted"
exec sleep infinity
"""


class MachineFailed(EngineError):
    """A node could not be given a machine."""

    hint = "The test bed needs root and may not be confined in what it mounts."


def hold(plan: Plan, node: str) -> Process:
    """The process that holds a node's mounts open."""
    place = plan.data(node)
    for name in ("lib", "log"):
        os.makedirs(f"{place}/{name}", exist_ok=True)
    done = Path(place, "mounted")
    done.unlink(missing_ok=True)
    command = [
        *cgroups.joining(plan, f"{node}/daemons"),
        *("unshare", "--mount", "--propagation=slave", "sh", "-c", _MOUNT, place),
    ]
    holder = process.spawn(command, log=plan.log(f"{node}-mounts"), cwd="/", env=environment())
    deadline = time.monotonic() + SECONDS
    while not done.exists():
        if not holder.is_alive or time.monotonic() > deadline:
            said = Path(plan.log(f"{node}-mounts")).read_text(errors="replace").strip()
            raise MachineFailed(f"{node} has no mounts of its own: {said[-400:]}")
        time.sleep(0.02)
    return holder


def inside(plan: Plan, node: str, holder: Process) -> list[str]:
    """What to put before a command that runs on that node."""
    return [
        *cgroups.joining(plan, f"{node}/daemons"),
        *network.enter(plan, node),
        f"--mount=/proc/{holder.pid}/ns/mnt",
    ]


def environment(programs: Programs | None = None) -> dict[str, str]:
    """Nothing of the caller's own Kubernetes, and no secrets, reach a component or its pods."""
    made = {"PATH": USUAL, "HOME": "/root", "LANG": "C.UTF-8"}
    if programs is not None:
        made["PATH"] = f"{programs.bin}:{USUAL}"
        made["LD_LIBRARY_PATH"] = f"{programs.containers}/lib"  # runc's
    return made


def import_archive(
    plan: Plan, node: str, holder: Process, programs: Programs, archive: Path
) -> None:
    done = subprocess.run(
        [
            *inside(plan, node, holder),
            *(f"{programs.bin}/ctr", "--address=/run/containerd/containerd.sock"),
            *("--namespace=k8s.io", "images", "import", str(archive)),
        ],
        env=environment(programs),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise MachineFailed(f"{node} could not import an image: {done.stderr.strip()[-400:]}")


def snapshotter(plan: Plan) -> str:
    """How containerd lays layers over each other: the kernel does not do it on top of itself."""
    command = ["stat", "--file-system", "--format=%T", plan.dir]
    kind = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return "native" if kind == "overlayfs" else "overlayfs"
