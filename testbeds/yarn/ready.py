"""Whether a daemon answers, asked over its own HTTP interface. Starts and stops nothing."""

import getpass
import json
import urllib.error
import urllib.request
from typing import Any

from testbeds.yarn.plan import LABEL, Plan, kind

TIMEOUT = 5.0  # seconds for one answer; a starting JVM on a busy machine is slow


class NotYet(Exception):
    """It does not answer as it should; the text says what is missing."""


def check(plan: Plan, daemon: str) -> None:
    """Raises NotYet until `daemon` does its work."""
    try:
        match kind(daemon):
            case "namenode":
                namenode(plan)
            case "datanode":
                datanode(plan)
            case "resourcemanager":
                resourcemanager(plan, daemon)
            case _:
                node(plan, daemon)
    except (KeyError, TypeError, ValueError):
        raise NotYet("answers, but not all of it") from None  # as they do while they start


def namenode(plan: Plan) -> None:
    if bean(plan, "NameNodeInfo")["Safemode"]:
        # Without its DataNode it stays there, and that is not the NameNode's fault.
        raise NotYet("in safe mode")


def datanode(plan: Plan) -> None:
    # The NameNode goes on counting one that was killed, so each is asked about the other.
    info = bean(plan, "DataNodeInfo", "datanode")
    actors = json.loads(info["BPServiceActorInfo"])
    state = bean(plan, "FSNamesystemState")
    known = state["NumLiveDataNodes"]
    if known < 1 or not actors or any(a["ActorState"] != "RUNNING" for a in actors):
        raise NotYet("not known to the NameNode")
    if state["NumStaleStorages"]:
        raise NotYet("has not reported its blocks")


def resourcemanager(plan: Plan, daemon: str) -> None:
    info = get(f"{plan.web(daemon)}/ws/v1/cluster/info")["clusterInfo"]
    enough = ("ACTIVE",) if len(plan.managers) == 1 else ("ACTIVE", "STANDBY")
    if info["state"] != "STARTED" or info["haState"] not in enough:
        raise NotYet(f"{info['state']} and {info['haState']}")


def node(plan: Plan, daemon: str) -> None:
    known = node_of(plan, daemon)
    if known is None:
        raise NotYet("not known to the ResourceManager")
    if known["state"] != "RUNNING":
        raise NotYet(str(known["state"]))
    own = get(f"{plan.web(daemon)}/ws/v1/node/info")["nodeInfo"]
    # A restarted node is RUNNING from its former life until its first heartbeat.
    if int(known["lastHealthUpdate"]) < int(own["nmStartupTime"]):
        raise NotYet("not heard by the ResourceManager")


def bean(plan: Plan, name: str, daemon: str = "namenode") -> dict[str, Any]:
    service = {"namenode": "NameNode", "datanode": "DataNode"}[daemon]
    beans = get(f"{plan.web(daemon)}/jmx?qry=Hadoop:service={service},name={name}")["beans"]
    if not beans:
        raise NotYet(f"has no {name} yet")
    found: dict[str, Any] = beans[0]
    return found


def nodes(plan: Plan) -> list[dict[str, Any]]:
    answer = get(f"{plan.web('resourcemanager')}/ws/v1/cluster/nodes")
    return list((answer.get("nodes") or {}).get("node") or ())


def node_of(plan: Plan, daemon: str) -> dict[str, Any] | None:
    """What the ResourceManager knows of a node; all are on one host, so its port names it."""
    port = f":{plan.ports[daemon]['rpc']}"
    return next((node for node in nodes(plan) if node["id"].endswith(port)), None)


def prepare(plan: Plan) -> None:
    """What an administrator would do in a new cluster; harmless when it is done already."""
    user = getpass.getuser()
    for path, mode in (("/tmp", "1777"), ("/user", "755"), (f"/user/{user}", "755")):
        where = f"{plan.web('namenode')}/webhdfs/v1{path}?user.name={user}"
        send("PUT", f"{where}&op=MKDIRS")
        send("PUT", f"{where}&op=SETPERMISSION&permission={mode}")
    label = {"nodeLabelInfo": [{"name": LABEL, "exclusivity": "true"}]}
    send("POST", f"{plan.web('resourcemanager')}/ws/v1/cluster/add-node-labels", label)


def label(plan: Plan, daemon: str, name: str) -> None:
    """Moves a node into the partition of that label; the empty name takes it out again."""
    known = node_of(plan, daemon)
    if known is None:
        raise NotYet(f"does not know {daemon}")
    where = f"{plan.web('resourcemanager')}/ws/v1/cluster/replace-node-to-labels"
    labels = [name] if name else []
    send("POST", where, {"nodeToLabels": [{"nodeId": known["id"], "labels": labels}]})


def get(url: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_answer(urllib.request.Request(url)))
    return answer


def send(method: str, url: str, body: dict[str, Any] | None = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    _answer(urllib.request.Request(url, data=data, headers=headers, method=method))


def _answer(request: urllib.request.Request) -> bytes:
    request.add_header("Accept", "application/json")
    # No proxy of this machine's stands between it and itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise NotYet(
                f"answers {error.code}: {error.read()[:300].decode(errors='replace')}"
            ) from None
    except (urllib.error.URLError, OSError):
        raise NotYet("does not answer") from None
