"""What the ApplicationMaster wants of the ResourceManager, as a table. LIGHT and pure: no sockets.

1. YARN's asks are absolute. Each figure here is what is still to come, and ``_told`` is what the
   ResourceManager believes; what differs is said with the next beat, and everything after a resync.
2. A role has a priority and a request id of its own, so no role gets another's container, and
   every container comes back with the id it was asked by.
3. An ask takes effect only after what was allocated before it, and that comes in the answer to the
   same beat. So a figure that was just sent is not counted down by that answer: it is sent again.
4. Roles that spread over nodes use placement constraints where ``constraints`` says that the
   cluster's scheduler takes them. Elsewhere they ask for everything at once; a container on a node
   that is taken goes back, and what is still missing is asked for again once no plain role waits,
   one role after the other, with the taken nodes blacklisted meanwhile (YARN knows one blacklist
   for all roles). So a role sends back at most as many as it wants, and what was under way when
   the blacklist was said.
   Of YARN's two constraint handlers only ``scheduler`` is used: ``placement-processor`` refuses
   what has no room at this moment, and adds up asks that are repeated after a resync.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dromon.hadoop import ids
from dromon.hadoop.messages.enums import TargetType
from dromon.hadoop.token import Token

ANY = "*"
DEFAULT_RACK = "/default-rack"  # where YARN puts a node that no topology script knows
_UNKNOWN = -1  # a figure that is no longer known, and so differs from every other
_MEMORY, _VCORES = "memory-mb", "vcores"  # YARN repeats these two among the other types


@dataclass(frozen=True)
class Size:
    """How large a container is. ``others``: further resource types, such as ``yarn.io/gpu``."""

    memory: int  # MB
    vcores: int
    others: Mapping[str, int] = field(default_factory=dict, hash=False)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Size:
        others = {
            kind["key"]: kind["value"]
            for kind in message["resource_value_map"]
            if kind["key"] not in (_MEMORY, _VCORES)
        }
        return cls(message["memory"], message["virtual_cores"], others)

    def to_message(self) -> dict[str, Any]:
        others = [{"key": key, "value": value} for key, value in sorted(self.others.items())]
        return {
            "memory": self.memory,
            "virtual_cores": self.vcores,
            "resource_value_map": others,
        }

    def lacks(self, asked: Size) -> str:
        """In words, what was asked for and is not here; empty: nothing."""
        # Cores are not looked at: a cluster that schedules by memory alone, as YARN does unless
        # told otherwise, grants one core to everybody and lets them use what there is.
        pairs = [("MB of memory", asked.memory, self.memory)]
        pairs += [(key, n, self.others.get(key, 0)) for key, n in sorted(asked.others.items())]
        return ", ".join(f"{has} of {want} {what}" for what, want, has in pairs if has < want)

    def __str__(self) -> str:
        more = "".join(f", {n} {key}" for key, n in sorted(self.others.items()) if n)
        cores = "1 CPU" if self.vcores == 1 else f"{self.vcores} CPUs"
        return f"{self.memory} MB, {cores}{more}"


@dataclass(frozen=True)
class Container:
    """A container we were given. ``node``: host and port of its NodeManager."""

    id: str
    node: str
    size: Size
    priority: int
    request: int  # the allocation request id that it was asked by
    token: Token  # what lets us start it
    http: str = ""

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Container:
        return cls(
            id=ids.container(message["id"]),
            node=ids.node(message["node_id"]),
            size=Size.from_message(message["resource"]),
            priority=message["priority"]["priority"],
            request=message["allocation_request_id"],
            token=Token.from_message(message["container_token"]),
            http=message["node_http_address"],
        )

    @property
    def host(self) -> str:
        return self.node.rpartition(":")[0]


@dataclass(frozen=True)
class Want:
    """What a role asks for. ``priority`` and ``request`` are the role's alone; a smaller priority
    is served first. ``request`` is the priority unless said otherwise: a role whose size changes
    needs a new one."""

    role: str
    priority: int
    size: Size
    count: int = 0
    label: str = ""
    hosts: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()  # those of the hosts, or wanted for themselves
    strict: bool = False  # nowhere else than on these hosts, or racks
    spread: bool = False  # no two of this role on one node
    request: int = 0

    @property
    def key(self) -> int:
        return self.request or self.priority


class _Place(NamedTuple):
    """One line of the table: whose ask, and where."""

    request: int
    name: str  # a host, a rack, ANY; empty: wherever its constraint allows


@dataclass(frozen=True)
class Sheet:
    """What one beat says of our wants."""

    asks: tuple[Mapping[str, Any], ...] = ()
    constrained: tuple[Mapping[str, Any], ...] = ()
    release: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    welcome: tuple[str, ...] = ()  # no longer avoided

    def to_message(self) -> dict[str, Any]:
        """The part of an AllocateRequest that it fills."""
        message: dict[str, Any] = {
            "ask": list(self.asks),
            "scheduling_requests": list(self.constrained),
            "release": [ids.parse_container(name) for name in self.release],
        }
        if self.avoid or self.welcome:
            message["blacklist_request"] = {
                "blacklist_additions": list(self.avoid),
                "blacklist_removals": list(self.welcome),
            }
        return {name: value for name, value in message.items() if value}


class Asks:
    def __init__(self, wants: Iterable[Want] = (), *, constraints: bool = False) -> None:
        """``constraints``: the cluster's placement-constraints.handler is ``scheduler``."""
        self._constraints = constraints
        self._wants: dict[str, Want] = {}
        self._roles: dict[int, str] = {}  # by request id, those of earlier wants too
        self._left: dict[str, int] = {}  # containers still to come
        self._returned: dict[str, int] = {}  # of these, how many came on a taken node
        self._held: dict[str, tuple[str, str]] = {}  # container -> its role and its node
        self._release: dict[str, bool] = {}  # given back, not yet over -> has it been said?
        self._avoided: set[str] = set()
        self._told: dict[_Place, int] = {}
        self._told_avoided: set[str] = set()
        self._said: set[_Place] = set()  # in the last sheet
        self._before: tuple[dict[_Place, int], dict[str, bool], set[str]] = ({}, {}, set())
        self.shortages: dict[str, str] = {}  # role -> what its containers came without
        for want in wants:
            self.want(want)

    # ---- what we want ---------------------------------------------------------------------------

    def want(self, want: Want) -> None:
        """A role, or a role that asks otherwise from now on. ``count`` is what is still to come."""
        for other in self._wants.values():
            if other.role != want.role and other.priority == want.priority:
                raise ValueError(f"{want.role} and {other.role} have one priority")
            if other.role == want.role and other.priority != want.priority:
                raise ValueError(f"{want.role} had another priority before")
        if self._roles.get(want.key, want.role) != want.role:
            raise ValueError(f"{want.role} and {self._roles[want.key]} both ask as {want.key}")
        for place, figure in list(self._told.items()):
            if self._roles.get(place.request) == want.role and figure:
                self._told[place] = _UNKNOWN  # said again, or cancelled if it is wanted no more
        self._roles[want.key] = want.role
        self._wants[want.role] = want
        self._left[want.role] = want.count
        self._returned[want.role] = 0

    def expect(self, role: str, count: int) -> None:
        """So many are still to come for this role, whatever it was before. What is under way
        beyond that comes nevertheless, as surplus."""
        self._left[role] = count
        self._returned[role] = min(count, self._returned[role])

    def left(self, role: str) -> int:
        """How many are still to come."""
        return self._left[role]

    @property
    def is_complete(self) -> bool:
        return not any(self._left.values())

    def unknown(self, types: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Role -> resource types it asks for that a cluster with these types does not have: YARN
        would leave them out without a word."""
        known = {_MEMORY, _VCORES, *types}
        found = {
            role: tuple(
                sorted(key for key, n in want.size.others.items() if n and key not in known)
            )
            for role, want in self._wants.items()
        }
        return {role: keys for role, keys in found.items() if keys}

    def avoid(self, node: str) -> None:
        """Nothing more on this node (host:port), for any role."""
        self._avoided.add(node)

    def welcome(self, node: str) -> None:
        self._avoided.discard(node)

    # ---- what we hear ---------------------------------------------------------------------------

    def allocated(self, container: Container) -> str | None:
        """The role it is for. None: it is given back with the next beat, whatever the reason."""
        role = self._roles.get(container.request)
        want = self._wants[role] if role is not None else None
        if role is None or want is None or want.key != container.request:
            self._release.setdefault(container.id, False)
            return None
        self._count_down(want)
        lacking = container.size.lacks(want.size)
        taken = want.spread and container.node in self._nodes(role)
        if lacking and self._left[role]:
            # It would come the same again and again: the ask is given up, and the reason kept.
            self.shortages[role] = lacking
            self._left[role] -= 1
        if lacking or taken or not self._left[role]:
            self._returned[role] = min(self._left[role], self._returned[role] + bool(taken))
            self._release.setdefault(container.id, False)
            return None
        self._left[role] -= 1
        self._returned[role] = min(self._left[role], self._returned[role])
        self._held[container.id] = (role, container.node)
        return role

    def adopt(self, container: Container) -> str | None:
        """A container of an earlier attempt: its role, which need not ask for it any more.
        None: nobody's; it is given back."""
        role = self._roles.get(container.request)
        if role is None:
            self._release.setdefault(container.id, False)
            return None
        self._left[role] = max(0, self._left[role] - 1)
        self._held[container.id] = (role, container.node)
        return role

    def release(self, container: str) -> None:
        """Give it back; whatever runs in it is ended."""
        self._held.pop(container, None)
        self._release.setdefault(container, False)

    def completed(self, container: str) -> None:
        """It is over, for whatever reason."""
        self._held.pop(container, None)
        self._release.pop(container, None)

    # ---- what we say ----------------------------------------------------------------------------

    def changed(self) -> Sheet:
        """What the ResourceManager does not know yet. It counts as said."""
        self._before = (dict(self._told), dict(self._release), set(self._told_avoided))
        figures = dict.fromkeys(self._told, 0)
        for want in self._wants.values():
            figures.update((place, self._figure(want)) for place in self._places(want))
        news = {p: n for p, n in figures.items() if n != self._told.get(p, 0)}
        # YARN's CapacityScheduler does not look at constrained asks beside plain ones.
        plain = {p: n for p, n in news.items() if p.name}
        news = plain or news
        self._told.update(news)
        self._said = set(news)
        messages = [self._message(place, figure) for place, figure in sorted(news.items())]
        giving = tuple(name for name, said in self._release.items() if not said)
        self._release.update(dict.fromkeys(giving, True))
        avoided = self._names_avoided()
        sheet = Sheet(
            tuple(m for m in messages if "resource_name" in m),
            tuple(m for m in messages if "resource_name" not in m),
            giving,
            tuple(sorted(avoided - self._told_avoided)),
            tuple(sorted(self._told_avoided - avoided)),
        )
        self._told_avoided = avoided
        return sheet

    def everything(self) -> Sheet:
        """For a ResourceManager that knows nothing of us any more."""
        self._told = {}
        self._told_avoided = set()
        self._release = dict.fromkeys(self._release, False)
        return self.changed()

    def undo(self) -> None:
        """The last sheet was refused, and nothing of it was heard."""
        told, release, avoided = self._before
        self._told = told
        self._release = {name: release.get(name, False) for name in self._release}
        self._told_avoided = avoided
        self._said = set()

    # ---- inside ---------------------------------------------------------------------------------

    def _places(self, want: Want) -> list[_Place]:
        if self._by_constraint(want):
            return [_Place(want.key, "")]
        racks = want.racks or ((DEFAULT_RACK,) if want.hosts else ())
        return [_Place(want.key, name) for name in (*want.hosts, *racks, ANY)]

    def _figure(self, want: Want) -> int:
        left = self._left[want.role]
        if not want.spread or self._by_constraint(want):
            return left
        turn = self._turn()
        if turn:
            return left if turn == want.role else 0
        return left - self._returned[want.role]

    def _turn(self) -> str:
        """The role that spreads with the help of the blacklist now; none while others wait."""
        waiting = [want for want in self._wants.values() if self._left[want.role]]
        if any(not want.spread or self._by_constraint(want) for want in waiting):
            return ""
        return min(waiting, key=lambda want: want.priority).role if waiting else ""

    def _by_constraint(self, want: Want) -> bool:
        return self._constraints and want.spread and not (want.label or want.hosts or want.racks)

    def _nodes(self, role: str) -> set[str]:
        return {node for held, node in self._held.values() if held == role}

    def _names_avoided(self) -> set[str]:
        """YARN names a node by its host, or on clusters that have several on one by host and port.
        Which of the two, nobody tells us; the name that means nothing there does no harm."""
        turn = self._turn()
        nodes = self._avoided | (self._nodes(turn) if turn else set())
        return nodes | {node.rpartition(":")[0] for node in nodes}

    def _count_down(self, want: Want) -> None:
        for place in self._places(want):
            if place.name not in (ANY, ""):
                self._told[place] = _UNKNOWN  # counted down or not: that depends on the node
            elif place not in self._said and self._told.get(place, 0) > 0:
                self._told[place] -= 1

    def _message(self, place: _Place, figure: int) -> dict[str, Any]:
        want = self._wants[self._roles[place.request]]
        common: dict[str, Any] = {
            "priority": {"priority": want.priority},
            "allocation_request_id": place.request,
        }
        if not place.name:
            sizing = {"num_allocations": figure, "resources": want.size.to_message()}
            apart = {
                "scope": "node",
                "target_expressions": [
                    {
                        "target_type": TargetType.ALLOCATION_TAG,
                        "target_key": "self",
                        "target_values": [want.role],
                    }
                ],
                "min_cardinality": 0,
                "max_cardinality": 0,
            }
            return {
                **common,
                "execution_type": {"execution_type": 1, "enforce_execution_type": True},
                "allocation_tags": [want.role],
                "resource_sizing": sizing,
                "placement_constraint": {"simple_constraint": apart},
            }
        named = place.name in want.hosts or (not want.hosts and place.name in want.racks)
        message = {
            **common,
            "resource_name": place.name,
            "capability": want.size.to_message(),
            "num_containers": figure,
            "relax_locality": named or not want.strict,
        }
        if want.label and place.name == ANY:
            message["node_label_expression"] = want.label
        return message
