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
    match kind(daemon):
        case "namenode":
            namenode(plan)
        case "datanode":
            datanode(plan)
        case "resourcemanager":
            resourcemanager(plan)
        case _:
            node(plan, daemon)


def namenode(plan: Plan) -> None:
    if bean(plan, "NameNodeInfo")["Safemode"]:
        # Without its DataNode it stays there, and that is not the NameNode's fault.
        raise NotYet("in safe mode")


def datanode(plan: Plan) -> None:
    if bean(plan, "FSNamesystemState")["NumLiveDataNodes"] < 1:
        raise NotYet("not known to the NameNode")


def resourcemanager(plan: Plan) -> None:
    info = get(f"{plan.web('resourcemanager')}/ws/v1/cluster/info")["clusterInfo"]
    if info["state"] != "STARTED" or info["haState"] != "ACTIVE":
        raise NotYet(f"{info['state']} and {info['haState']}")


def node(plan: Plan, daemon: str) -> None:
    port = plan.ports[daemon]["rpc"]
    for known in nodes(plan):
        if known["id"].endswith(f":{port}"):
            if known["state"] != "RUNNING":
                raise NotYet(known["state"])
            break
    else:
        raise NotYet("not known to the ResourceManager")
    get(f"{plan.web(daemon)}/ws/v1/node/info")


def bean(plan: Plan, name: str) -> dict[str, Any]:
    beans = get(f"{plan.web('namenode')}/jmx?qry=Hadoop:service=NameNode,name={name}")["beans"]
    if not beans:
        raise NotYet(f"has no {name} yet")
    found: dict[str, Any] = beans[0]
    return found


def nodes(plan: Plan) -> list[dict[str, Any]]:
    answer = get(f"{plan.web('resourcemanager')}/ws/v1/cluster/nodes")
    return list((answer.get("nodes") or {}).get("node") or ())


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
    (node_id,) = (n["id"] for n in nodes(plan) if n["id"].endswith(f":{plan.ports[daemon]['rpc']}"))
    where = f"{plan.web('resourcemanager')}/ws/v1/cluster/replace-node-to-labels"
    labels = [name] if name else []
    send("POST", where, {"nodeToLabels": [{"nodeId": node_id, "labels": labels}]})


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
