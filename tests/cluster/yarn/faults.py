"""Taking things away from jobs and beds, and what their members wrote down meanwhile."""

import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yarnjobs as jobs
from testbeds import process
from testbeds.yarn.bed import Bed

from dromon.agent.record import Record
from dromon.hadoop import addresses, site
from dromon.hadoop.protobuf import BOOL, ENUM, Table, need, one
from dromon.hadoop.protocol import Protocol
from dromon.hadoop.sasl import Simple
from dromon.hadoop.transport import RpcClient
from dromon.storage.native import acts_as

# As the NameNode's administrators ask it; no part of what Dromon asks.
ADMIN = Protocol(
    "org.apache.hadoop.hdfs.protocol.ClientProtocol",
    {
        "setSafeMode": (
            Table("SetSafeModeRequestProto", need(1, "action", ENUM), one(2, "checked", BOOL)),
            Table("SetSafeModeResponseProto", need(1, "result", BOOL)),
        )
    },
)
LEAVE, ENTER = 1, 2
PIDFD_OPEN, PIDFD_GETFD = 434, 438  # system calls

# A member that writes down that it lives, until it is told to go. `deaf` ones do not hear TERM.
BEATS = """\
if {deaf}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("up")
while not os.path.exists(path("go")):
    with open(path("beats"), "a") as file:
        file.write(f"{{me}} {{os.getpid()}} {{attempt}} {{time.time()}}\\n")
    time.sleep(0.1)
say("done")
"""


class Life(NamedTuple):
    """One process of a member, from its first beat to its last."""

    member: str
    pid: int
    attempt: int
    began: float
    ended: float


class Scene:
    """An engine on a bed whose nodes share a directory."""

    def __init__(self, bed: Bed, home: Path) -> None:
        self.bed = bed
        self.home = home
        self.engine = jobs.engine(bed, home, shared=str(home / "shared"))

    # ---- jobs ---------------------------------------------------------------------------------

    def run(self, *, deaf: bool = False, **job: Any) -> str:
        """Members that beat until `go`, on the nodes with the label; all of them are up."""
        ref = self.submit(deaf=deaf, **job)
        count = sum(role["replicas"] for role in job["roles"].values())
        self.until(lambda: len(self.now(ref)) == count, f"{count} members at work", ref)
        return ref

    def submit(self, *, deaf: bool = False, **job: Any) -> str:
        for role in job["roles"].values():
            role.setdefault("node_label", "gpu")
            if role["node_label"] is None:
                del role["node_label"]
        return jobs.run(self.engine, BEATS.format(deaf=deaf), **job)

    def let_go(self, ref: str) -> None:
        """The members may end."""
        Path(self.place(ref), "go").touch()

    def go(self, ref: str) -> None:
        """And the job does, well."""
        self.let_go(ref)
        status = jobs.ended(self.engine, ref)
        assert status.state == "succeeded", jobs.told(self.engine, ref)

    def until(self, condition: Any, what: str, ref: str = "") -> Any:
        found = jobs.until(condition)
        assert found, f"waited in vain for {what}\n{jobs.told(self.engine, ref) if ref else ''}"
        return found

    # ---- what members wrote down --------------------------------------------------------------

    def place(self, ref: str) -> str:
        return f"{self.home}/shared/{ref}/checkpoints"

    def lives(self, ref: str) -> list[Life]:
        """In the order in which they began."""
        found: dict[int, Life] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in Path(self.place(ref), "beats").read_text().splitlines():
                member, pid, attempt, moment = line.split()
                born = found.get(int(pid))
                began = born.began if born else float(moment)
                found[int(pid)] = Life(member, int(pid), int(attempt), began, float(moment))
        return list(found.values())

    def now(self, ref: str) -> dict[str, Life]:
        """The members that live at this moment."""
        return {life.member: life for life in self.lives(ref) if alive(life.pid)}

    def of(self, ref: str, member: str) -> list[Life]:
        return [life for life in self.lives(ref) if life.member == member]

    def beats_on(self, ref: str, member: str) -> None:
        """It is alive, and will have been a moment later."""
        moment = time.time()
        self.until(lambda: self.of(ref, member)[-1].ended > moment, f"a beat of {member}", ref)

    # ---- processes ----------------------------------------------------------------------------

    def standing(self, ref: str) -> dict[str, Any]:
        """As its master tells; empty while there is none."""
        return self.engine._standing(self.engine._report(ref)) or {}

    def epoch(self, ref: str) -> int:
        report = self.engine._report(ref)
        told = self.standing(ref) if report.state == "RUNNING" else {}
        return int(told.get("epoch", 0))

    def master(self, ref: str) -> int:
        """Its newest master's process, once there is one."""

        def found() -> int:
            mark = jobs.application(self.engine, ref).replace("application_", "_")
            lines = jobs.processes(mark).items()
            masters = [pid for pid, (line, _) in lines if "yarn-master\0" in line]
            return next(reversed(process.by_age(masters)), 0)

        return int(self.until(found, "the master's process", ref))

    def kill_master(self, ref: str) -> None:
        """Once YARN knows that its members run."""
        self.until(lambda: self.knows_containers(ref), "YARN to know its containers", ref)
        os.kill(self.master(ref), signal.SIGKILL)

    def knows_containers(self, ref: str) -> bool:
        """Containers of whose start no NodeManager has told yet end with their master."""
        said = Path(self.bed.plan.log("resourcemanager")).read_text()
        running = "{} Container Transitioned from ACQUIRED to RUNNING"
        held = [m["container"] for m in self.standing(ref).get("members", ())]
        return bool(held) and all(each and running.format(each) in said for each in held)

    def has_agents(self, ref: str) -> bool:
        """All of them have come to its master."""
        members = self.standing(ref).get("members", ())
        return bool(members) and all(m["connected"] for m in members)

    def front(self, ref: str, member: str) -> int:
        return jobs.process_of(self.engine, ref, f"yarn-member\0{member}")

    def agent(self, ref: str, member: str) -> int:
        return _children(self.front(ref, member))[0]

    def node_of(self, ref: str, member: str) -> str:
        """The daemon's name of the node it is on."""
        (where,) = (m.host for m in self.engine.status(ref).members if m.member == member)
        port = int(where.rpartition(":")[2])
        ports = self.bed.plan.ports
        return next(node for node in self.bed.plan.nodes if ports[node]["rpc"] == port)

    def left(self, ref: str) -> list[str]:
        """Processes of the job that live, whoever knows of them."""
        mark = jobs.application(self.engine, ref).replace("application_", "_")
        return [line for line, _ in jobs.processes(mark).values()]

    @contextlib.contextmanager
    def cut_off(self, ref: str, member: str) -> Iterator[None]:
        """Its agent's line is gone, and where it looks for its master nobody answers; in the end
        it finds the way again."""
        front, agent = self.front(ref, member), self.agent(ref, member)
        home = jobs.mapping(Path(f"/proc/{front}/environ").read_bytes())["PWD"]
        record = Record(f"{home}/record")
        known = json.loads(Path(record.coordinator).read_text())
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            address = f"tcp:127.0.0.1:{nobody.getsockname()[1]}"
            _put(record.coordinator, {**known, "address": address})
            _shut(agent, int(known["address"].rpartition(":")[2]))
            yield
        _put(record.coordinator, known)


def safe_mode(bed: Bed, action: int) -> None:
    files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
    found = addresses.name_service(site.load(files, dict(os.environ), {}))
    servers = [node.rpc for node in found.nodes]
    client = RpcClient(ADMIN, servers, Simple(acts_as()), what="NameNode")
    client.call("setSafeMode", {"action": action, "checked": False})
    client.close()


def never_beside_each_other(lives: list[Life]) -> bool:
    """No process of a member began before the one before it had ended."""
    return all(before.ended < after.began for before, after in itertools.pairwise(lives))


@contextlib.contextmanager
def frozen(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def alive(pid: int) -> bool:
    """A zombie is dead."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _put(path: str, data: Any) -> None:
    Path(f"{path}.put").write_text(json.dumps(data))
    os.replace(f"{path}.put", path)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _shut(pid: int, port: int) -> None:
    """Ends the connections of that process to this port."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(PIDFD_OPEN, pid, 0)
    assert process >= 0, os.strerror(ctypes.get_errno())
    shut = 0
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/{pid}/fd/{entry}").startswith("socket:"):
                continue
            with socket.socket(fileno=libc.syscall(PIDFD_GETFD, process, int(entry), 0)) as line:
                if line.family == socket.AF_INET and line.getpeername()[1] == port:
                    line.shutdown(socket.SHUT_RDWR)
                    shut += 1
    os.close(process)
    assert shut, "there was no line"
