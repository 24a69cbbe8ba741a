"""Whether a component does its work. Starts and stops nothing."""

import socket
import ssl
import urllib.error
import urllib.request

from testbeds.kubernetes import api
from testbeds.kubernetes.api import NotYet
from testbeds.kubernetes.commands import ADMISSION, HEALTH
from testbeds.kubernetes.plan import Plan, number
from testbeds.process import Process

TIMEOUT = 5.0  # seconds for one answer


def check(plan: Plan, component: str, holder: Process | None = None) -> None:
    """Raises NotYet until `component` does its work; a node's parts need who holds its mounts."""
    if component.startswith("containerd"):
        containerd(holder)
    elif component.startswith("node"):
        node(plan, component)
    elif component == "dns":
        names(plan)
    elif component == "volcano-admission":
        connect(plan.control, ADMISSION)
    elif component == "apiserver":
        api.call(plan, "GET", "/readyz")
    else:
        scheme, port, path = HEALTH[component]
        well(f"{scheme}://{plan.control}:{port}{path}")


def containerd(holder: Process | None) -> None:
    if holder is None or not holder.is_alive:
        raise NotYet("its node has no mounts")
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(f"/proc/{holder.pid}/root/run/containerd/containerd.sock")
        except OSError:
            raise NotYet("does not answer") from None


def node(plan: Plan, name: str) -> None:
    well(f"http://{plan.address(number(name))}:10248/healthz")
    found = api.get(plan, f"/api/v1/nodes/{name}")
    conditions = {c["type"]: c for c in found["status"].get("conditions", ())}
    state = conditions.get("Ready", {"status": "Unknown", "message": "nothing said"})
    if state["status"] != "True":
        raise NotYet(f"not ready: {state.get('message', '')}"[:200])
    if any(t["key"].startswith("node.kubernetes.io/") for t in found["spec"].get("taints", ())):
        raise NotYet("still tainted")


def names(plan: Plan) -> None:
    name = "kubernetes.default.svc.cluster.local"
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    header = bytes([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(TIMEOUT)
        try:
            line.connect((plan.control, 53))
            line.send(header + labels + bytes([0, 0, 1, 0, 1]))
            answer = line.recv(4096)
        except OSError:
            raise NotYet("does not answer") from None
    if answer[6:8] == b"\0\0":
        raise NotYet(f"does not know {name}")


def connect(host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=TIMEOUT).close()
    except OSError:
        raise NotYet("does not answer") from None


def well(url: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # No proxy of this machine's stands between it and itself.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=TIMEOUT):
            pass
    except urllib.error.HTTPError as error:
        with error:
            raise NotYet(f"answers {error.code}") from None
    except (urllib.error.URLError, OSError):
        raise NotYet("does not answer") from None
