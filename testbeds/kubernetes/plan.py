"""What a bed consists of: its components, their addresses and places. Values only.

DIR/bed.json       the plan and the processes, written down by `bed`
DIR/kubeconfig     of its administrator; alice.kubeconfig and bob.kubeconfig of its users
DIR/shared         what every node mounts at the same path: the site's file server
DIR/net            its network namespaces
DIR/conf           certificates, keys, configuration files
DIR/data/NAME      what a component keeps
DIR/logs/NAME.log  what it says

The network is 10.N.0.0/16: N.0 joins this machine (.1), the control plane (.2) and the nodes
(.11, .12 …), N.1 has the pods of node1, N.2 those of node2, N.255 the services.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

KUBERNETES = "1.34.4"
VOLCANO = "1.14.1"
GPU = "nvidia.com/gpu"
IMAGE = "dromon.test/python:3"
PAUSE = "dromon.test/pause:1"
FIRST_BLOCK, LAST_BLOCK = 130, 249  # of the second number of addresses
MOST_NODES = 9

# Preemption within a queue and reclaim between queues both work with it, and end.
SCHEDULER_CONF = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
    enableReclaimable: false
  - name: sla
    arguments:
      sla-waiting-time: 1h
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: capacity
    enableHierarchy: true
    enableJobEnqueued: false
  - name: nodeorder
  - name: binpack
"""


def _queues() -> dict[str, dict[str, Any]]:
    return {"team-a": {"deserved": {GPU: 2}}, "team-b": {"deserved": {GPU: 2}}}


def _priorities() -> dict[str, int]:
    return {"low": 100, "normal": 1000, "high": 10000}


@dataclass(frozen=True)
class Options:
    """What whoever brings a bed up may choose."""

    nodes: int = 2
    gpus_per_node: int = 2
    fake_nodes: int = 0
    fake_gpus: int = 8  # of each fake node
    # Seconds until a silent node is given up, and as many until its pods are. Not where all nodes
    # are silent at once: Kubernetes then thinks that it is its own fault.
    expiry: int | None = None
    volcano: bool = True
    scheduler_conf: str = SCHEDULER_CONF
    queues: dict[str, dict[str, Any]] = field(default_factory=_queues)  # besides `default`
    priorities: dict[str, int] = field(default_factory=_priorities)


@dataclass(frozen=True)
class Plan:
    """A bed in a directory of its own, in a network of its own."""

    dir: str
    options: Options
    block: int

    @property
    def name(self) -> str:
        """Of its control group, and of its interface on this machine."""
        return f"dromon-{self.block}"

    @property
    def components(self) -> list[str]:
        control = ["etcd", "apiserver", "controller-manager", "scheduler", "dns"]
        volcano = ["volcano-scheduler", "volcano-controllers", "volcano-admission"]
        return [
            *control,
            *(volcano if self.options.volcano else ()),
            *(["kwok"] if self.options.fake_nodes else ()),
            *(f"containerd{n}" for n in self.numbers),
            *self.nodes,
        ]

    @property
    def numbers(self) -> range:
        return range(1, self.options.nodes + 1)

    @property
    def nodes(self) -> list[str]:
        return [f"node{n}" for n in self.numbers]

    @property
    def network(self) -> str:
        return f"10.{self.block}.0.0/16"

    @property
    def host(self) -> str:
        return f"10.{self.block}.0.1"

    @property
    def control(self) -> str:
        return f"10.{self.block}.0.2"

    @property
    def services(self) -> str:
        return f"10.{self.block}.255.0/24"

    @property
    def first_service(self) -> str:
        """Where pods find the API server."""
        return f"10.{self.block}.255.1"

    @property
    def server(self) -> str:
        return f"https://{self.control}:443"

    def address(self, number: int) -> str:
        return f"10.{self.block}.0.{10 + number}"

    def pods(self, number: int) -> str:
        return f"10.{self.block}.{number}.0/24"

    def netns(self, where: str) -> str:
        """The file that holds a network namespace; `where` is control, node1, node2 …"""
        return f"{self.dir}/net/{where}"

    @property
    def kubeconfig(self) -> str:
        return f"{self.dir}/kubeconfig"

    @property
    def shared(self) -> str:
        return f"{self.dir}/shared"

    def conf(self, file: str) -> str:
        return f"{self.dir}/conf/{file}"

    def data(self, component: str) -> str:
        return f"{self.dir}/data/{component}"

    def log(self, component: str) -> str:
        return f"{self.dir}/logs/{component}.log"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(data: Mapping[str, Any]) -> Plan:
    return Plan(dir=data["dir"], options=Options(**data["options"]), block=data["block"])


def number(component: str) -> int:
    """The node that it belongs to, 0 for what belongs to none."""
    digits = component.lstrip("abcdefghijklmnopqrstuvwxyz-")
    return int(digits) if digits else 0


def make(directory: str, options: Options, is_free: Callable[[int], bool]) -> Plan:
    """The same directory gets the same network again, where nobody else has taken it."""
    blocks = LAST_BLOCK - FIRST_BLOCK + 1
    start = zlib.crc32(directory.encode())
    block = next(b for n in range(blocks) if is_free(b := FIRST_BLOCK + (start + n) % blocks))
    return Plan(dir=directory, options=options, block=block)
