"""The ApplicationMaster's talk with the ResourceManager: register, beat, finish. LIGHT.

``Beat`` is the pure part: what the next allocate says and which number it bears. A beat that was
not answered is repeated word for word: the ResourceManager answers a number it has seen with what
it said before, and would not hear anything new in it. ``Scheduler`` is the shell around it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from dromon.engines.yarn.am.asks import Asks, Container, Size
from dromon.errors import EngineError
from dromon.hadoop import ids
from dromon.hadoop.messages.enums import (
    ContainerState,
    FinalStatus,
    MasterCommand,
    NodeState,
    NodeUpdateType,
)
from dromon.hadoop.protobuf import Record
from dromon.hadoop.token import Token
from dromon.hadoop.transport import RpcClient, RpcFailed

FINISHING = 600  # times that the end is announced, 0.1 s apart, before we go without a receipt
DIAGNOSTICS = 16 * 1024  # characters; YARN keeps 64 kB of all attempts together

NOTHING = Size(0, 0)

_RESYNC = "ApplicationMasterNotRegisteredException"
_REGISTERED = "InvalidApplicationMasterRequestException"
_GONE = frozenset({"ApplicationAttemptNotFoundException", "ApplicationNotFoundException",
                   "InvalidToken"})  # fmt: skip
_REFUSED = frozenset(
    {
        "InvalidResourceRequestException",
        "InvalidLabelResourceRequestException",
        "SchedulerInvalidResoureRequestException",  # Hadoop's own spelling
        "SchedulerInvalidResourceRequestException",
        "InvalidResourceBlacklistRequestException",
    }
)
_MAXIMUM = re.compile(
    r"type=\[([^\]]+)\].*?[Rr]equested resource=(<.*?>).*?maximum allowed allocation=(<.*?>)", re.S
)


class Superseded(EngineError):
    """YARN knows this attempt of the ApplicationMaster no more: another one has its place, or the
    application is over. Nothing may be touched any more."""

    hint = ""


class AskRefused(EngineError):
    """The ResourceManager will never grant what was asked for."""

    hint = "Ask for less in `resources`, or for another `node_label` or queue."


@dataclass(frozen=True)
class Registration:
    """``maximum`` is not to be relied on just after the ResourceManager has started."""

    maximum: Size
    types: tuple[str, ...] = ()  # resource types that the cluster knows
    containers: tuple[Container, ...] = ()  # of earlier attempts, still running
    tokens: Mapping[str, Token] = field(default_factory=dict)  # by node, for those containers
    queue: str = ""
    answered: bool = True  # False: we are registered, but the answer was lost on the way


@dataclass(frozen=True)
class Completed:
    """A container is over: what ``exits`` reads."""

    id: str
    status: int
    diagnostics: str
    complete: bool = True

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Completed:
        return cls(
            ids.container(message["container_id"]),
            message["exit_status"],
            message["diagnostics"],
            message["state"] == ContainerState.COMPLETE,
        )


@dataclass(frozen=True)
class NodeChange:
    node: str
    state: str  # RUNNING, UNHEALTHY, LOST, DECOMMISSIONING …
    usable: bool
    health: str = ""


@dataclass(frozen=True)
class Heard:
    """What an answer tells."""

    allocated: tuple[Container, ...] = ()
    completed: tuple[Completed, ...] = ()
    strict: tuple[str, ...] = ()  # containers that will be taken whatever we do
    contract: tuple[str, ...] = ()  # containers that will be taken unless we give back as much
    nodes: tuple[NodeChange, ...] = ()
    tokens: Mapping[str, Token] = field(default_factory=dict)
    previous: tuple[Container, ...] = ()  # of earlier attempts, found only now
    registration: Registration | None = None  # the ResourceManager was new: we registered again

    @property
    def preempted(self) -> tuple[str, ...]:
        """Every container that is about to be taken."""
        return tuple(dict.fromkeys((*self.strict, *self.contract)))


class Beat:
    """1. One beat at a time. 2. The first bears 0, each later one what the answer before bore."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._number = 0
        self._open: dict[str, Any] | None = None
        self._fresh = False  # the ResourceManager knows nothing of us

    def next(self, progress: float) -> Mapping[str, Any]:
        """The beat to send: the last one again, until it is answered."""
        if self._open is None:
            sheet = self._asks.everything() if self._fresh else self._asks.changed()
            self._open = {
                **sheet.to_message(),
                "response_id": self._number,
                "progress": min(1.0, max(0.0, progress)),
            }
        return self._open

    def answered(self, number: int) -> None:
        self._number = number
        self._open = None
        self._fresh = False

    def refused(self) -> None:
        """It was understood and nothing of it was done: the number counts on from where it was."""
        if self._open is not None:
            self._asks.undo()
        self._open = None

    def resync(self) -> None:
        """We are known anew: from 0, and with everything we want."""
        self._number = 0
        self._open = None
        self._fresh = True


class Scheduler:
    """``client`` speaks ApplicationMasterProtocol with the AMRMToken. Safe for several threads."""

    def __init__(
        self, client: RpcClient, asks: Asks, *, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._beat = Beat(asks)
        self._wait = wait
        self._turn = threading.Lock()
        self._place: dict[str, Any] = {}

    def register(self, host: str, port: int, tracking_url: str) -> Registration:
        """Once per attempt, before everything else."""
        with self._turn:
            self._place = {"host": host, "rpc_port": port, "tracking_url": tracking_url}
            return self._register()

    def allocate(self, progress: float = 0.0) -> Heard:
        """One beat: says what changed in the asks and hears what there is. Raises ``Superseded``,
        ``AskRefused`` (nothing of this beat was heard), ``Unreachable`` (call again)."""
        with self._turn:
            registration = None
            while True:
                try:
                    answer = self._client.call("allocate", self._beat.next(progress))
                except RpcFailed as failed:
                    if failed.name != _RESYNC:
                        self._beat.refused()
                        raise _meaning(failed) from None
                else:
                    command = answer["a_m_command"]
                    if command == MasterCommand.SHUTDOWN:
                        raise Superseded("the ResourceManager told the ApplicationMaster to stop")
                    if command != MasterCommand.RESYNC:
                        break
                self._beat.resync()
                registration = self._register()
            self._beat.answered(answer["response_id"])
            if "am_rm_token" in answer:
                self._client.use(Token.from_message(answer["am_rm_token"]))
            return replace(heard(answer), registration=registration)

    def finish(self, status: FinalStatus, diagnostics: str = "", tracking_url: str = "") -> bool:
        """The last word, repeated until YARN has written it down. False: it never said so."""
        message = {
            "final_application_status": status,
            "diagnostics": diagnostics[:DIAGNOSTICS],
            "tracking_url": tracking_url,
        }
        with self._turn:
            for said in range(FINISHING):
                try:
                    answer = self._client.call("finishApplicationMaster", message)
                except RpcFailed as failed:
                    if failed.name == _RESYNC:
                        self._beat.resync()
                        self._register()
                        continue
                    if said and (failed.name in _GONE or failed.name == _REGISTERED):
                        return True  # written down, and the attempt put away, between two calls
                    raise _meaning(failed) from None
                if answer["is_unregistered"]:
                    return True
                self._wait(0.1)
            return False

    def _register(self) -> Registration:
        try:
            answer = self._client.call("registerApplicationMaster", self._place)
        except RpcFailed as failed:
            if failed.name == _REGISTERED and "already registered" in failed.text.lower():
                return Registration(NOTHING, answered=False)
            raise _meaning(failed) from None
        return Registration(
            maximum=Size.from_message(answer["maximum_capability"]),
            types=tuple(kind["name"] for kind in answer["resource_types"]),
            containers=_containers(answer["containers_from_previous_attempts"]),
            tokens=_tokens(answer["nm_tokens_from_previous_attempts"]),
            queue=answer["queue"],
        )


def heard(answer: Record) -> Heard:
    """An AllocateResponse, as values."""
    preempt = answer["preempt"]
    return Heard(
        allocated=_containers(answer["allocated_containers"]),
        completed=tuple(
            Completed.from_message(status) for status in answer["completed_container_statuses"]
        ),
        strict=_named(preempt["strict_contract"]["container"]),
        contract=_named(preempt["contract"]["container"]),
        nodes=tuple(_node(report) for report in answer["updated_nodes"]),
        tokens=_tokens(answer["nm_tokens"]),
        previous=_containers(answer["containers_from_previous_attempts"]),
    )


def _containers(messages: list[Record]) -> tuple[Container, ...]:
    return tuple(Container.from_message(message) for message in messages)


def _tokens(messages: list[Record]) -> dict[str, Token]:
    return {ids.node(one["node_id"]): Token.from_message(one["token"]) for one in messages}


def _named(containers: list[Record]) -> tuple[str, ...]:
    return tuple(ids.container(one["id"]) for one in containers)


def _node(report: Record) -> NodeChange:
    state = report["node_state"]
    kind = report.get("node_update_type")
    usable = kind == NodeUpdateType.USABLE if kind is not None else state == NodeState.RUNNING
    return NodeChange(
        ids.node(report["node_id"]), _name(NodeState, state), usable, report["health_report"]
    )


def _name(names: Any, number: int) -> str:
    try:
        return str(names(number).name)
    except ValueError:
        return str(number)


def _meaning(failed: RpcFailed) -> EngineError:
    if failed.name in _GONE:
        return Superseded(f"YARN knows this attempt no more: {failed.text.splitlines()[0]}")
    if failed.name not in _REFUSED:
        return failed
    too_large = _MAXIMUM.search(failed.text)
    if too_large is None:
        return AskRefused(f"YARN refuses to give a container: {failed.text.splitlines()[0]}")
    kind, asked, most = too_large.groups()
    return AskRefused(
        f"no node of the cluster may give a container of {asked[1:-1]}: too much {kind},"
        f" the most is {most[1:-1]}"
    )
