"""The bed's network: a bridge in the control plane's namespace, one namespace for each node.

A cable leads from this machine to the bridge, so that clients here reach the API server, pods and
all. Nothing here filters or translates addresses.
"""

import json
import os
import subprocess
from pathlib import Path

from dromon.errors import EngineError
from testbeds.kubernetes.plan import Plan

FOLDER = "/run/netns"


class NetworkFailed(EngineError):
    """This machine would not give the bed a network."""

    hint = "The test bed needs root, and a kernel with network namespaces, veth and bridges."


def make(plan: Plan) -> None:
    """Does nothing when it is there."""
    if is_there(plan):
        return
    remove(plan)
    control = plan.netns("control")
    for where in ("control", *plan.nodes):
        _ip("netns", "add", plan.netns(where))
        _in(plan.netns(where), "link", "set", "lo", "up")
    _in(control, "link", "add", "bridge", "type", "bridge")
    _in(control, "address", "add", f"{plan.control}/24", "dev", "bridge")
    _in(control, "link", "set", "bridge", "up")
    # The API server answers at the address of its service: there is nobody to translate it.
    _in(control, "address", "add", f"{plan.first_service}/32", "dev", "lo")
    _ip("link", "add", plan.name, "type", "veth", "peer", "host", "netns", control)
    _in(control, "link", "set", "host", "master", "bridge", "up")
    _ip("address", "add", f"{plan.host}/24", "dev", plan.name)
    _ip("link", "set", plan.name, "up")
    _ip("route", "add", plan.network, "via", plan.control)
    for number in plan.numbers:
        node = plan.netns(f"node{number}")
        _in(control, "link", "add", f"node{number}", "type", "veth", "peer", "eth0", "netns", node)
        _in(control, "link", "set", f"node{number}", "master", "bridge", "up")
        _in(node, "address", "add", f"{plan.address(number)}/24", "dev", "eth0")
        _in(node, "link", "set", "eth0", "up")
        _in(node, "route", "add", "default", "via", plan.control)
        _in(control, "route", "add", plan.pods(number), "via", plan.address(number))
        for other in plan.numbers:
            if other != number:
                _in(node, "route", "add", plan.pods(other), "via", plan.address(other))
    for where in ("control", *plan.nodes):
        _forward(plan.netns(where))


def is_there(plan: Plan) -> bool:
    wanted = [plan.netns(where) for where in ("control", *plan.nodes)]
    return all(os.path.exists(f"{FOLDER}/{name}") for name in wanted) and _has_link(plan.name)


def remove(plan: Plan) -> None:
    """The cables go with the namespaces; this machine's end of one may take a moment."""
    if _has_link(plan.name):
        _ip("link", "delete", plan.name)
    if os.path.isdir(FOLDER):
        for name in sorted(os.listdir(FOLDER)):
            if name.startswith(f"{plan.name}-"):
                _ip("netns", "delete", name)


def is_free(block: int) -> bool:
    """Whether nobody on this machine has addresses in 10.`block`, or routes to them."""
    try:
        addresses = json.loads(_ip("-json", "-4", "address"))
        routes = json.loads(_ip("-json", "-4", "route", "show", "table", "all") or "[]")
    except ValueError:
        return True
    prefix = f"10.{block}."
    used = [info["local"] for link in addresses for info in link.get("addr_info", ())]
    used += [str(route.get("dst", "")) for route in routes]
    left = os.listdir(FOLDER) if os.path.isdir(FOLDER) else []
    return not any(one.startswith(prefix) for one in used) and not any(
        name.startswith(f"dromon-{block}-") for name in left
    )


def enter(plan: Plan, where: str) -> list[str]:
    """What to put before a command; unlike `ip netns exec` it leaves mounts alone."""
    return ["nsenter", f"--net={FOLDER}/{plan.netns(where)}"]


def _forward(namespace: str) -> None:
    command = ["nsenter", f"--net={FOLDER}/{namespace}", "sh", "-c"]
    # /proc shows the settings of whoever looks.
    _run([*command, "echo 1 > /proc/sys/net/ipv4/ip_forward"])


def _has_link(name: str) -> bool:
    return Path("/sys/class/net", name).exists()


def _in(namespace: str, *words: str) -> None:
    _ip("-n", namespace, *words)


def _ip(*words: str) -> str:
    return _run(["ip", *words])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
