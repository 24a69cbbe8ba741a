"""The bed's network: a bridge in the control plane's namespace, one namespace for each node.

A cable leads from this machine to the bridge, so that clients here reach the API server, pods and
all. Nothing here filters or translates addresses.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from dromon.errors import EngineError
from testbeds.kubernetes.plan import Plan


class NetworkFailed(EngineError):
    """This machine would not give the bed a network."""

    hint = "The test bed needs root, and a kernel with network namespaces, veth and bridges."


def make(plan: Plan) -> None:
    """Does nothing when it is there."""
    if is_there(plan):
        return
    remove(plan)
    os.makedirs(f"{plan.dir}/net", exist_ok=True)
    for where in ("control", *plan.nodes):
        # A file of our own: `ip netns` would leave a mount behind in /run.
        Path(plan.netns(where)).touch()
        _run(["unshare", f"--net={plan.netns(where)}", "true"])
        _ip(plan, where, "link", "set", "lo", "up")
    _ip(plan, "control", "link", "add", "bridge", "type", "bridge")
    _ip(plan, "control", "address", "add", f"{plan.control}/24", "dev", "bridge")
    _ip(plan, "control", "link", "set", "bridge", "up")
    # The API server answers at the address of its service: there is nobody to translate it.
    _ip(plan, "control", "address", "add", f"{plan.first_service}/32", "dev", "lo")
    _cable(plan, "", plan.name, "control", "host")
    _ip(plan, "control", "link", "set", "host", "master", "bridge", "up")
    _ip(plan, "", "address", "add", f"{plan.host}/24", "dev", plan.name)
    _ip(plan, "", "link", "set", plan.name, "up")
    _ip(plan, "", "route", "add", plan.network, "via", plan.control)
    for number, node in zip(plan.numbers, plan.nodes, strict=True):
        _cable(plan, "control", node, node, "eth0")
        _ip(plan, "control", "link", "set", node, "master", "bridge", "up")
        _ip(plan, node, "address", "add", f"{plan.address(number)}/24", "dev", "eth0")
        _ip(plan, node, "link", "set", "eth0", "up")
        _ip(plan, node, "route", "add", "default", "via", plan.control)
        _ip(plan, "control", "route", "add", plan.pods(number), "via", plan.address(number))
        for other in plan.numbers:
            if other != number:
                _ip(plan, node, "route", "add", plan.pods(other), "via", plan.address(other))
    for where in ("control", *plan.nodes):
        # /proc shows the settings of whoever looks.
        forward = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
        _run([*enter(plan, where), *forward])


def is_there(plan: Plan) -> bool:
    mounted = Path("/proc/mounts").read_text()
    wanted = [plan.netns(where) for where in ("control", *plan.nodes)]
    return all(f" {path} " in mounted for path in wanted) and _has_link(plan.name)


def remove(plan: Plan) -> None:
    """The cables go with the namespaces, and those when nobody is in them any more."""
    if _has_link(plan.name):
        _ip(plan, "", "link", "delete", plan.name)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in mounts:
        if path.startswith(f"{plan.dir}/net/"):
            _run(["umount", path])
    shutil.rmtree(f"{plan.dir}/net", ignore_errors=True)


def is_free(block: int) -> bool:
    """Whether nobody on this machine has addresses in 10.`block`, or routes to them."""
    addresses = json.loads(_run(["ip", "-json", "-4", "address"]) or "[]")
    routes = json.loads(_run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    used = [info["local"] for link in addresses for info in link.get("addr_info", ())]
    used += [str(route.get("dst", "")) for route in routes]
    return not any(one.startswith(f"10.{block}.") for one in used)


def enter(plan: Plan, where: str) -> list[str]:
    """What to put before a command; unlike `ip netns exec` it leaves mounts alone."""
    return ["nsenter", f"--net={plan.netns(where)}"]


def _cable(plan: Plan, here: str, name: str, there: str, peer: str) -> None:
    words = ["link", "add", name, "type", "veth", "peer", peer, "netns", plan.netns(there)]
    _ip(plan, here, *words)


def _has_link(name: str) -> bool:
    return Path("/sys/class/net", name).exists()


def _ip(plan: Plan, where: str, *words: str) -> None:
    _run([*(enter(plan, where) if where else ()), "ip", *words])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
