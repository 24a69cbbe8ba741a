"""A stage for `Master`: the ResourceManager and the nodes on paper, agents that speak the real
bytes over loopback, a journal on HDFS. The clock is the test's."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dromon.agent.frames import Message, Unpacker, pack
from dromon.agent.protocol import proof
from dromon.engines.yarn.am.asks import Asks, Container
from dromon.engines.yarn.am.beats import News
from dromon.engines.yarn.am.gathering import Gathering, Patience
from dromon.engines.yarn.am.journal import Journal, parse
from dromon.engines.yarn.am.main import _wants
from dromon.engines.yarn.am.master import Master
from dromon.engines.yarn.am.nodes import Launch, Outcome
from dromon.engines.yarn.am.scheduler import Completed, Heard
from dromon.hadoop.token import Token
from dromon.hadoop.webhdfs import WebHdfs
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan

KEY = b"0123456789abcdef"
PATIENCE = 30.0
FOREVER = Patience(hold=1e9)
LOST = (-100, "Container released on a *lost* node")


def until(claim: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := claim()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.003)
    return found


def name(number: int) -> str:
    return f"container_1700000000000_0001_01_{number:06d}"


class BeatsOnPaper:
    """What the ResourceManager would be told."""

    def __init__(self, asks: Asks) -> None:
        self.asks = asks
        self.released: list[str] = []

    def tell(self, change: Callable[[Asks], None]) -> None:
        change(self.asks)
        self.released += self.asks.changed().release


class NodesOnPaper:
    """What the NodeManagers would be told. `failing`: node -> why it starts nothing."""

    def __init__(self) -> None:
        self.started: list[Launch] = []
        self.failing: dict[str, str] = {}
        self.adopted: list[str] = []
        self.over: list[str] = []

    def learn(self, tokens: Any) -> None:
        pass

    def adopt(self, containers: Iterable[Container]) -> None:
        self.adopted += [one.id for one in containers]

    def start(self, launches: Iterable[Launch]) -> Iterator[Outcome]:
        self.started += launches
        return iter([Outcome(one.container, self._failure(one)) for one in launches])

    def ended(self, container: Container) -> None:
        self.over.append(container.id)

    def _failure(self, launch: Launch) -> str:
        return self.failing.get(launch.container.node, "")


class FakeAgent:
    """The agent of one container, as far as its words go."""

    def __init__(
        self, port: int, job: str, member: str, place: str, run: int = 0, key: bytes = KEY
    ) -> None:
        self.member, self.place, self.run = member, place, run
        self.heard: list[Message] = []
        self.is_gone = False
        self._sock = socket.create_connection(("127.0.0.1", port))
        self._sock.settimeout(PATIENCE)
        self._unpacker = Unpacker()
        self._waiting: list[Message] = []
        challenge = self._next()
        nonces = (challenge["nonce"], "mine")
        identity = {"job": job, "member": member, "run": run, "place": place}
        mac = proof(key, "agent", nonces)
        self.say({"op": "hello", "nonce": "mine", "mac": mac, "epoch": 1, **identity})
        try:
            self.welcome = self._next()
        except OSError:
            self._sock.close()
            raise
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _next(self) -> Message:
        while not self._waiting:
            data = self._sock.recv(65536)
            if not data:
                raise ConnectionError("hung up on")
            self._waiting += self._unpacker.feed(data)
        return self._waiting.pop(0)

    def _listen(self) -> None:
        try:
            while True:
                message = self._next()
                if message["op"] == "again":
                    self.run = message["run"]
                self.heard.append(message)
        except OSError:
            self.is_gone = True

    def say(self, message: Message) -> None:
        self._sock.sendall(pack(message))

    def tell(self, op: str, **more: Any) -> None:
        self.say({"op": op, "run": self.run, **more})

    def ready(self) -> None:
        self.tell("ready", host="127.0.0.1", ports=[4000 + self.run])

    def exited(self, code: int = 0, **more: Any) -> None:
        cause = "success" if code == 0 else "user_error"
        self.tell("exited", exit={"code": code, "cause": cause, **more})

    def of(self, op: str) -> list[Message]:
        return [message for message in list(self.heard) if message["op"] == op]

    def wait(self, op: str, count: int = 1) -> Message:
        what = f"{self.member} to hear {op}, not {self.heard}"
        return until(lambda: len(self.of(op)) >= count and self.of(op)[-1], what)

    def wait_until_gone(self) -> None:
        until(lambda: self.is_gone, f"the line of {self.member} to end")

    def leave(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join()
        self._sock.close()


class Stage:
    """One attempt of a job's master."""

    def __init__(
        self,
        request: dict[str, Any],
        hdfs: WebHdfs,
        record: str,
        *,
        epoch: int = 1,
        patience: Patience = FOREVER,
        start: bool = True,
    ) -> None:
        self.hdfs, self.record, self.epoch = hdfs, record, epoch
        self.ahead = 0.0
        self.nodes = NodesOnPaper()
        self.beats = BeatsOnPaper(Asks(_wants(request)))
        self.agents: list[FakeAgent] = []
        self.containers: dict[str, Container] = {}
        self.job = request["gang"]["job"]
        self.master = Master(
            request, gang=Gang(GangPlan.from_json(request["gang"]), prepared=True),
            gathering=Gathering(patience, self.now()), epoch=epoch, host="127.0.0.1", key=KEY,
            tokens=b"tokens", nodes=self.nodes, now=self.now, chance=lambda: 0.5,
        )  # fmt: skip
        self.journal = Journal(
            hdfs, record, epoch, self.master.on_durable, self.master.on_superseded
        )
        self.entries = self.journal.open()
        self.master.journal = self.journal
        self._thread = threading.Thread(target=self.master.run, daemon=True)
        if start:
            self.start()

    def start(self) -> None:
        self.master.beats = self.beats
        self._thread.start()

    def now(self) -> float:
        return time.time() + self.ahead

    def close(self) -> None:
        for agent in self.agents:
            agent.leave()
        self.master.post(lambda: setattr(self.master, "superseded", "the test is over"))
        if self._thread.is_alive():
            self._thread.join()
        self.journal.close(5)
        self.master.peers.close()

    # ---- what happens -------------------------------------------------------------------------

    def ask(self, question: Callable[[Master], Any]) -> Any:
        """In the deciding thread."""
        box: list[Any] = []
        done = threading.Event()

        def look() -> None:
            try:
                box.append(question(self.master))
            finally:
                done.set()

        self.master.post(look)
        assert done.wait(PATIENCE)
        return box[0]

    def pass_time(self, seconds: float) -> None:
        self.ahead += seconds
        self.ask(lambda master: None)
        self.ask(lambda master: None)  # it has settled

    def grant(self, *numbers: int, role: str = "worker", node: str = "n1:1") -> None:
        """Containers come, with the numbers as ids."""
        found = []

        def come(asks: Asks) -> None:
            for number in numbers:
                want = asks._wants[role]
                token = Token(b"launch", b"p", "ContainerToken")
                made = Container(name(number), node, want.size, want.priority, want.key, token)
                self.containers[made.id] = made
                given = asks.allocated(made)
                if given is not None:
                    found.append((made, given))

        self.ask(lambda master: self.beats.tell(come))
        self.master.on_news(News(Heard(), tuple(found)))
        self.ask(lambda master: None)

    def hear(self, **heard: Any) -> None:
        news = Heard(**heard)

        def forget(asks: Asks) -> None:
            for done in news.completed:
                asks.completed(done.id)

        self.ask(lambda master: self.beats.tell(forget))
        self.master.on_news(News(news))
        self.ask(lambda master: None)

    def over(self, number: int, status: int = 1, words: str = "") -> None:
        self.hear(completed=(Completed(name(number), status, words),))

    def agent(self, member: str, number: int, run: int = 0) -> FakeAgent:
        made = FakeAgent(self.master.peers.port, self.job, member, name(number), run)
        self.agents.append(made)
        return made

    def gather(self, count: int, first: int = 1, node: str = "n1:1") -> list[FakeAgent]:
        """So many workers come to the barrier: containers, agents, `ready`."""
        self.grant(*range(first, first + count), node=node)
        made = [self.agent(f"worker-{i}", first + i) for i in range(count)]
        for agent in made:
            agent.wait("again")
            agent.ready()
        return made

    def run(self, count: int, **how: Any) -> list[FakeAgent]:
        """A gang at work."""
        made = self.gather(count, **how)
        for agent in made:
            agent.wait("world")
            agent.tell("started", pid=7)
        self.wait_members("up", count)
        return made

    # ---- what is seen -------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        found = self.ask(lambda master: master.status())
        return json.loads(json.dumps(found))

    def state(self) -> str:
        return str(self.status()["state"])

    def wait_state(self, state: str) -> dict[str, Any]:
        return until(
            lambda: (found := self.status())["state"] == state and found, f"the job to be {state}"
        )

    def wait_members(self, state: str, count: int) -> None:
        until(
            lambda: sum(m["state"] == state for m in self.status()["members"]) == count,
            f"{count} members to be {state}",
        )

    def member(self, name: str) -> dict[str, Any]:
        return next(m for m in self.status()["members"] if m["member"] == name)

    def held(self) -> dict[str, str]:
        """Container number -> member."""
        held = self.ask(lambda master: dict(master.gathering.held))
        return {int(id.rpartition("_")[2]): one.member for id, one in held.items()}

    def released(self) -> list[int]:
        return [int(id.rpartition("_")[2]) for id in list(self.beats.released)]

    def left(self, role: str = "worker") -> int:
        """How many containers are asked for now."""
        return self.ask(lambda master: self.beats.asks.left(role))

    def starts(self) -> list[int]:
        return [int(one.container.id.rpartition("_")[2]) for one in list(self.nodes.started)]

    def written(self) -> list[dict[str, Any]]:
        """What is on HDFS now."""
        directory = f"{self.record}/journal-{self.epoch}"
        names = sorted(each for each, _ in self.hdfs.list(directory))
        return [e for each in names for e in parse(self.hdfs.read(f"{directory}/{each}"))]

    def wait_written(self) -> None:
        """Until nothing waits for the journal any more."""
        until(lambda: self.journal._taken == len(self.written()), "the journal")

    def kinds(self) -> list[str]:
        return [entry["event"]["kind"] for entry in self.written() if "event" in entry]

    def wait_kind(self, kind: str, count: int = 1) -> dict[str, Any]:
        def found() -> Any:
            events = [e["event"] for e in self.written() if "event" in e]
            theirs = [e for e in events if e["kind"] == kind]
            return theirs[-1] if len(theirs) >= count else None

        return until(found, f"{kind} on the journal")


def pid_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
