"""What is started, stopped and asked on the NodeManagers. LIGHT.

Each node has a connection with the token YARN gave for it, used by one thread at a time; several
nodes are talked to at once. What a node refuses for one container is a value, not an exception.
"""

from __future__ import annotations

import concurrent.futures
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable
from urllib.parse import unquote, urlsplit

from dromon.engines.yarn.am.asks import Container
from dromon.engines.yarn.am.scheduler import Completed
from dromon.errors import EngineError
from dromon.hadoop import ids
from dromon.hadoop.addresses import Address
from dromon.hadoop.failover import Policy
from dromon.hadoop.faults import LocalProtocolError
from dromon.hadoop.messages.enums import AccessType, LocalResourceType, Visibility
from dromon.hadoop.messages.nodes import CONTAINER_MANAGEMENT
from dromon.hadoop.protobuf import Record
from dromon.hadoop.token import Token
from dromon.hadoop.transport import RpcClient

PATIENCE = Policy(base=0.2, cap=5.0, patience=60.0)
THREADS = 16
BATCH = 50  # containers in one call: a launch context may be some ten kilobytes
_VARIABLE = re.compile(r"\{\{[A-Za-z_][A-Za-z0-9_]*\}\}")
# A start that is repeated after a lost answer is told one of these: the first one arrived.
_STARTED = ("already is running on this node", "Attempt to relaunch the same container")
_NO_TOKEN = "YARN gave no token for the node"

Connect = Callable[[str, Token], RpcClient]


@dataclass(frozen=True)
class LocalResource:
    """A file that the node fetches before the start. ``timestamp``: HDFS's, to the millisecond."""

    url: str
    size: int
    timestamp: int
    kind: str = "file"  # or archive: unpacked by the node
    visibility: str = "private"  # or public, application: who shares the node's copy

    def to_message(self) -> dict[str, Any]:
        parts = urlsplit(self.url)
        where: dict[str, Any] = {"scheme": parts.scheme, "file": unquote(parts.path)}
        if parts.hostname:
            where["host"] = parts.hostname
            where["port"] = parts.port if parts.port is not None else -1
        return {
            "resource": where,
            "size": self.size,
            "timestamp": self.timestamp,
            "type": LocalResourceType[self.kind.upper()],
            "visibility": Visibility[self.visibility.upper()],
        }


def launch_context(
    resources: Mapping[str, LocalResource],
    environment: Mapping[str, str],
    command: Sequence[str],
    tokens: bytes = b"",
    acls: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What a container runs. ``resources``: link name in the work directory -> file; ``command``:
    words for bash, joined; ``tokens``: a credentials file; ``acls``: VIEW_APP, MODIFY_APP -> who.

    YARN drops every ``}}`` that closes no ``{{NAME}}``, and pastes the command between double
    quotes, so neither may stand there."""
    for name, value in environment.items():
        if "}}" in _VARIABLE.sub("", value):
            raise LocalProtocolError(f"{name}: YARN would drop the }}}} in its value")
    for word in command:
        if '"' in word or "}}" in _VARIABLE.sub("", word):
            raise LocalProtocolError(f"YARN cannot pass on the word {word!r} of a command")
    context: dict[str, Any] = {
        "local_resources": [
            {"key": link, "value": file.to_message()} for link, file in resources.items()
        ],
        "environment": [{"key": name, "value": value} for name, value in environment.items()],
        "command": list(command),
        "application_acls": [
            {"access_type": AccessType[kind], "acl": who} for kind, who in (acls or {}).items()
        ],
    }
    return {**context, "tokens": tokens} if tokens else context


@dataclass(frozen=True)
class Launch:
    container: Container
    context: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What became of a request for one container; ``failure`` is empty where it was done."""

    container: Container
    failure: str = ""
    status: Completed | None = None  # of ``statuses``: how it is, or how it ended

    @property
    def ok(self) -> bool:
        return not self.failure


class Nodes:
    """1. What ``start``, ``stop`` and ``statuses`` return is under way already; the outcomes come
    as the nodes answer, those of one node together. 2. A container counts as ours on its node from
    its start (or ``adopt``) until ``ended``; the last one takes the connection with it."""

    def __init__(
        self,
        tokens: Mapping[str, Token] | None = None,
        *,
        connect: Connect | None = None,
        threads: int = THREADS,
    ) -> None:
        """``tokens``: by node, host:port. ``connect``: another way to make a client."""
        self._tokens = dict(tokens or {})
        self._connect = connect or _client
        self._clients: dict[str, RpcClient] = {}
        self._ours: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._over = False
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, "node")

    def learn(self, tokens: Mapping[str, Token]) -> None:
        """Tokens that came with a beat: for new nodes, or newer ones."""
        with self._lock:
            self._tokens.update(tokens)
            for node, token in tokens.items():
                if node in self._clients:
                    self._clients[node].use(token)

    def start(self, launches: Iterable[Launch]) -> Iterator[Outcome]:
        contexts = {launch.container.id: launch for launch in launches}
        containers = [launch.container for launch in contexts.values()]
        self.adopt(containers)

        def ask(client: RpcClient, batch: Sequence[Container]) -> Record:
            requests = [
                {
                    "container_launch_context": contexts[one.id].context,
                    "container_token": one.token.to_message(),
                }
                for one in batch
            ]
            return client.call("startContainers", {"start_container_request": requests})

        def started(outcome: Outcome) -> Outcome:
            if any(text in outcome.failure for text in _STARTED):
                return Outcome(outcome.container)
            if not outcome.ok:
                self.ended(outcome.container)
            return outcome

        return (started(outcome) for outcome in self._each(containers, ask))

    def stop(self, containers: Iterable[Container]) -> Iterator[Outcome]:
        """SIGTERM now, SIGKILL when the node's delay is over: a quarter of a second, usually."""

        def ask(client: RpcClient, batch: Sequence[Container]) -> Record:
            return client.call("stopContainers", {"container_id": _ids(batch)})

        return self._each(containers, ask)

    def statuses(self, containers: Iterable[Container]) -> Iterator[Outcome]:
        def ask(client: RpcClient, batch: Sequence[Container]) -> Record:
            return client.call("getContainerStatuses", {"container_id": _ids(batch)})

        return self._each(containers, ask)

    def adopt(self, containers: Iterable[Container]) -> None:
        """Containers that run already, from an earlier attempt."""
        with self._lock:
            for one in containers:
                self._ours.setdefault(one.node, set()).add(one.id)

    def ended(self, container: Container) -> None:
        with self._lock:
            ours = self._ours.get(container.node, set())
            ours.discard(container.id)
            client = None if ours else self._clients.pop(container.node, None)
            if not ours:
                self._ours.pop(container.node, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Calls under way are cut off; no thread is left."""
        with self._lock:
            self._over = True
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()
        self._pool.shutdown()

    # ---- inside ---------------------------------------------------------------------------------

    def _each(
        self,
        containers: Iterable[Container],
        ask: Callable[[RpcClient, Sequence[Container]], Record],
    ) -> Iterator[Outcome]:
        by_node: dict[str, list[Container]] = {}
        for one in containers:
            by_node.setdefault(one.node, []).append(one)
        futures = [
            self._pool.submit(self._ask, node, there[at : at + BATCH], ask)
            for node, there in by_node.items()
            for at in range(0, len(there), BATCH)
        ]
        return (
            outcome
            for future in concurrent.futures.as_completed(futures)
            for outcome in future.result()
        )

    def _ask(
        self,
        node: str,
        batch: Sequence[Container],
        ask: Callable[[RpcClient, Sequence[Container]], Record],
    ) -> list[Outcome]:
        try:
            client = self._client(node)
            answer = ask(client, batch)
        except EngineError as error:
            return [Outcome(one, str(error)) for one in batch]
        failed = {
            ids.container(one["container_id"]): _words(one["exception"])
            for one in answer["failed_requests"]
        }
        found = {}
        if "status" in answer.table.fields:
            found = {s.id: s for s in map(Completed.from_message, answer["status"])}
        return [Outcome(one, failed.get(one.id, ""), found.get(one.id)) for one in batch]

    def _client(self, node: str) -> RpcClient:
        with self._lock:
            if self._over:
                raise EngineError("the ApplicationMaster is leaving")
            if node not in self._clients:
                if node not in self._tokens:
                    raise EngineError(f"{_NO_TOKEN} {node}")
                self._clients[node] = self._connect(node, self._tokens[node])
            return self._clients[node]


def _client(node: str, token: Token) -> RpcClient:
    host, _, port = node.rpartition(":")
    return RpcClient(
        CONTAINER_MANAGEMENT, [Address(host, int(port))], token, what="NodeManager", policy=PATIENCE
    )


def _ids(containers: Iterable[Container]) -> list[dict[str, Any]]:
    return [ids.parse_container(one.id) for one in containers]


def _words(exception: Record) -> str:
    text = str(exception["message"]).strip()
    name = str(exception["class_name"]).rpartition(".")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2]) or name or "the node does not say why"
