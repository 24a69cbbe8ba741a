"""What a bed consists of: its daemons, their ports and places. Values only; nothing is started.

DIR/bed.json      the plan and the processes, written down by `bed`
DIR/conf/NAME     one configuration directory for each daemon, and `client` for everybody else
DIR/data/NAME     what the daemon keeps
DIR/logs/NAME.log what it says
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

HOST = "127.0.0.1"
HADOOP = "3.4.3"
QUEUES = {"default": 40, "research": 20, "urgent": 40}  # percent of the cluster that is theirs
LABEL = "gpu"
GPUS = 2  # of the second node
NODE_MEMORY_MB = 6144
NODE_VCORES = 8

# Below the ports Linux hands out for outgoing connections, so that none is taken while a daemon
# is down for a moment.
FIRST_PORT, LAST_PORT = 20000, 32000
_PORTS = {
    "namenode": ("rpc", "web"),
    "datanode": ("data", "web", "ipc"),
    "resourcemanager": ("client", "scheduler", "tracker", "admin", "web"),
    "node": ("rpc", "web", "localizer", "collector"),
}
_CLASSES = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "node": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}


@dataclass(frozen=True)
class Options:
    """What whoever brings a bed up may choose."""

    hadoop: str = HADOOP
    nodes: int = 2
    expiry: int | None = None  # seconds until a silent node, AM or container is given up
    recovery: bool = False  # the ResourceManager remembers across a restart
    settings: dict[str, str] = field(default_factory=dict)
    managers: int = 1  # ResourceManagers; of several one is active, and they remember


@dataclass(frozen=True)
class Plan:
    """A bed in a directory of its own, on ports of its own."""

    dir: str
    options: Options
    ports: dict[str, dict[str, int]]

    @property
    def daemons(self) -> list[str]:
        return list(self.ports)

    @property
    def nodes(self) -> list[str]:
        return nodes(self.options)

    @property
    def managers(self) -> list[str]:
        return managers(self.options)

    def address(self, daemon: str, port: str) -> str:
        return f"{HOST}:{self.ports[daemon][port]}"

    def web(self, daemon: str) -> str:
        return f"http://{self.address(daemon, 'web')}"

    def conf(self, daemon: str = "client") -> str:
        return f"{self.dir}/conf/{daemon}"

    def data(self, daemon: str) -> str:
        return f"{self.dir}/data/{daemon}"

    def log(self, daemon: str) -> str:
        return f"{self.dir}/logs/{daemon}.log"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(data: Mapping[str, Any]) -> Plan:
    return Plan(dir=data["dir"], options=Options(**data["options"]), ports=data["ports"])


def kind(daemon: str) -> str:
    """`node2` is a node."""
    return daemon.rstrip("0123456789")


def main_class(daemon: str) -> str:
    return _CLASSES[kind(daemon)]


def nodes(options: Options) -> list[str]:
    return [f"node{n}" for n in range(1, options.nodes + 1)]


def managers(options: Options) -> list[str]:
    more = [f"resourcemanager{n}" for n in range(2, options.managers + 1)]
    return ["resourcemanager", *more]


def make(directory: str, options: Options, is_free: Callable[[int], bool]) -> Plan:
    """The same directory gets the same ports again, where nobody else has taken them."""
    places = LAST_PORT - FIRST_PORT
    start = zlib.crc32(directory.encode()) % places
    free = (port for n in range(places) if is_free(port := FIRST_PORT + (start + n) % places))
    names = ["namenode", "datanode", *managers(options), *nodes(options)]
    ports = {name: {use: next(free) for use in _PORTS[kind(name)]} for name in names}
    return Plan(dir=directory, options=options, ports=ports)
