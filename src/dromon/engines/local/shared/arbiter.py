"""Who runs on a machine of many users: everybody's jobs, and what each daemon is told. No sockets.

A decision is taken as carried out when it is told: until the daemon says otherwise its share is
not given to anybody else. What a daemon tells of itself is put right here, never believed of
others: a job is `user/id`, and the user is the one the kernel names.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from dromon.engines.local.deciding import OwnScheduler
from dromon.engines.local.shared import entries, wire
from dromon.engines.local.shared.entries import QUEUED, RUNNING, STOPPING, Entry
from dromon.engines.local.shared.journal import Journal
from dromon.engines.local.shared.orders import Enforcer
from dromon.engines.local.shared.past import Past
from dromon.engines.local.shared.people import Person
from dromon.engines.local.usage import AT_ONCE
from dromon.errors import EngineError, JobNotFound, Refused
from dromon.sched import events
from dromon.sched.asks import Placement
from dromon.sched.decisions import Grow, Preempt, Refuse, Shrink, Start

log = logging.getLogger("dromon.arbiter")
MOST_JOBS = 20_000  # of one user at once
GONE = 10.0  # seconds after which a daemon that left may have left nothing behind
ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class Permissions(Protocol):
    """What the site allows whom."""

    def check(self, person: Person, job: events.JobSubmitted) -> None:
        """Raises Refused."""
        ...

    def is_admin(self, person: Person) -> bool: ...


class Peer(Protocol):
    """A daemon's connection."""

    person: Person
    home: str
    door: str  # a socket at which it shows others what is shared

    def send(self, message: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class Arbiter:
    def __init__(
        self,
        journal: Journal,
        scheduler: OwnScheduler,
        permissions: Permissions,
        past: Past,
        enforcer: Enforcer,
        same_boot: bool,
        now: float,
    ) -> None:
        self.journal = journal
        self.scheduler = scheduler
        self.permissions = permissions
        self.past = past
        self.enforcer = enforcer
        self.jobs: dict[str, Entry] = {}
        self.outside: dict[str, str] = {}  # device -> who is on it without having asked
        self._peers: dict[tuple[int, str], Peer] = {}
        self._left: dict[tuple[int, str], float] = {}  # daemons that are away, since when
        self._told: dict[Peer, set[str]] = {}  # what each has told since it came, until it is done
        self._away: set[str] = set()  # queued, and nobody there to start them
        self._dirty: dict[str, Entry] = {}
        self._audit: list[tuple[Any, ...]] = []
        self._seq = journal.last_seq()
        self._counts: Counter[int] = Counter()  # jobs of each user
        for row in journal.active():
            entry = entries.from_row(row)
            self.jobs[entry.key] = entry
            self._counts[entry.uid] += 1
            if entry.state == QUEUED or not same_boot:
                entry.state, entry.placement = QUEUED, {}
                self._away.add(entry.key)  # until its daemon is back
            else:
                past.under_way(scheduler, entry, now)
                self._put(entry)

    # ---- daemons come and go --------------------------------------------------------------------

    def join(self, peer: Peer) -> None:
        """From now on it tells all its jobs, and then that these were all."""
        before = self._peers.get((peer.person.uid, peer.home))
        if before is not None:
            self.leave(before)
            before.close()
        self._peers[peer.person.uid, peer.home] = peer
        self._left.pop((peer.person.uid, peer.home), None)
        self._told[peer] = set()

    def leave(self, peer: Peer) -> None:
        """What runs goes on and holds what it has; what waits cannot be started now."""
        self._told.pop(peer, None)
        if self._peers.get((peer.person.uid, peer.home)) is not peer:
            return
        del self._peers[peer.person.uid, peer.home]
        for entry in list(self._of(peer)):
            if entry.state == QUEUED:
                self._away.add(entry.key)
                self.scheduler.apply(events.JobEnded(entry.key))

    def look_for_leftovers(self, is_gone: Callable[[Entry], bool], now: float) -> None:
        """Jobs whose daemon has been away for a while, and of which nothing lives any more, hold
        nothing; they are told anew when it is back."""
        for entry in list(self.jobs.values()):
            who = (entry.uid, entry.home)
            if entry.state == QUEUED or who in self._peers:
                continue
            if now - self._left.setdefault(who, now) > GONE and is_gone(entry):
                self._release(entry, now)
                self._away.add(entry.key)
                self.scheduler.apply(events.JobEnded(entry.key, now))

    def tell_all(self, message: dict[str, Any]) -> None:
        for peer in list(self._peers.values()):
            peer.send(message)

    def _of(self, peer: Peer) -> Iterator[Entry]:
        uid, home = peer.person.uid, peer.home
        return (e for e in self.jobs.values() if e.uid == uid and e.home == home)

    def told_all(self, peer: Peer, now: float) -> None:
        """What it did not tell is over."""
        told = self._told.pop(peer, set())
        for entry in list(self._of(peer)):
            if entry.key not in told:
                self._end(entry, now)

    def admit(self, person: Person, job: events.JobSubmitted) -> None:
        """Raises Refused for what the site does not allow."""
        if self._counts[person.uid] >= MOST_JOBS:
            raise Refused(f"{person.name} has {MOST_JOBS} jobs already")
        self.permissions.check(person, job)

    # ---- what daemons say of their own jobs -----------------------------------------------------

    def tell(self, peer: Peer, message: Mapping[str, Any], now: float) -> None:
        if message["op"] == "job":
            id = wire.value(str, message["job"].get("id"))
            if not ID.fullmatch(id):
                raise wire.Misspoken("no id of a job")
            try:
                self._on_job(peer, id, message, now)
            except wire.Misspoken as error:  # its daemon would only tell it again
                peer.send({"op": "refuse", "id": id, "reason": f"not understood: {error}"})
            return
        entry = self.jobs.get(f"{peer.person.name}/{message['id']}")
        if entry is None or entry.uid != peer.person.uid or entry.home != peer.home:
            return  # over already, as far as we know
        if message["op"] == "stopping":
            self._stopping(entry, now)
        elif message["op"] in ("released", "declined"):
            self._release(entry, now)
        elif message["op"] == "shrunk":
            self._shrunk(entry, wire.value(tuple[str, ...], message["members"]), now)
        elif message["op"] == "checkpointed":
            self.scheduler.apply(events.JobCheckpointed(entry.key, now))
        elif message["op"] == "ended":
            self._end(entry, now)
        elif message["op"] != "started":  # as it was told to
            raise wire.Misspoken(str(message["op"])[:40])

    def _on_job(self, peer: Peer, id: str, message: Mapping[str, Any], now: float) -> None:
        """A new one, or one of those it has, told again."""
        person = peer.person
        key = f"{person.name}/{id}"
        known = self.jobs.get(key)
        if known is not None and (known.uid, known.home) != (person.uid, peer.home):
            raise wire.Misspoken(f"{key} is another daemon's")
        if known is None:
            if self._counts[person.uid] >= MOST_JOBS:
                raise wire.Misspoken(f"{person.name} has {MOST_JOBS} jobs already")
            self._seq += 1
        seq = known.job.seq if known else self._seq
        job = entries.told(
            message["job"],
            key=key,
            user=person.name,
            seq=seq,
            time=known.job.time if known else now,
        )
        acls = entries.acls(message.get("acls", {}))
        entry = Entry(key, person.uid, peer.home, job, acls)
        if known is not None:
            entry.started = known.started
        if message.get("state") in (RUNNING, STOPPING):
            entry.state = message["state"]
            entry.placement = self._possible(key, entries.placement(message["placement"]))
            entry.started = entry.started or now
        if peer in self._told:
            self._told[peer].add(key)
        is_same = known is not None and key not in self._away and _same(known, entry)
        self.jobs[key] = self._dirty[key] = entry
        if known is None:
            self._counts[person.uid] += 1
            self._note(person, now, "submit", key, f"queue {job.queue}, priority {job.priority}")
        if is_same:
            return
        if known is not None and key not in self._away:
            self.scheduler.apply(events.JobEnded(key, now))
        self._away.discard(key)
        if entry.state == QUEUED and known is None:
            try:
                self.permissions.check(person, job)
            except Refused as error:
                self._refuse(entry, error.message, now)
                return
        self._put(entry)

    def _possible(self, key: str, said: Any) -> Any:
        """What is told to run runs; but nobody takes a GPU from somebody else by saying so."""
        taken = {gpu for entry in self.jobs.values() if entry.key != key for gpu in entry.gpus}
        node = self.scheduler.node
        return {
            member: share
            for member, share in said.items()
            if share.node == node and not taken.intersection(share.gpus)
        }

    def _put(self, entry: Entry) -> None:
        self.scheduler.apply(entry.job)
        if entry.state != QUEUED:
            started = entry.started or 0.0
            self.scheduler.apply(events.JobStarted(entry.key, entry.placement, started))
        if entry.state == STOPPING:
            self.scheduler.apply(events.JobStopping(entry.key, entry.started or 0.0))

    def _stopping(self, entry: Entry, now: float, for_job: str = "") -> None:
        if entry.state == RUNNING:
            entry.state = STOPPING
            self._dirty[entry.key] = entry
            self.scheduler.apply(events.JobStopping(entry.key, now, for_job))

    def _shrunk(self, entry: Entry, gone: tuple[str, ...], now: float) -> None:
        """Members have gone, or did not come."""
        left = {m: share for m, share in entry.placement.items() if m not in gone}
        if left:
            if left.keys() != entry.placement.keys():
                self._resize(entry, left, now)
            self.scheduler.apply(events.JobShrunk(entry.key, gone, now))

    def _resize(self, entry: Entry, placement: Placement, now: float) -> None:
        self.past.used(entry, now)
        entry.placement, entry.started, entry.since = placement, now, AT_ONCE
        self._dirty[entry.key] = entry

    def _release(self, entry: Entry, now: float) -> None:
        if entry.state != QUEUED:
            self.past.used(entry, now)
            entry.state, entry.placement, entry.started = QUEUED, {}, None
            entry.since = now
            self._dirty[entry.key] = entry
            self.scheduler.apply(events.JobReleased(entry.key, now))

    def _end(self, entry: Entry, now: float) -> None:
        self.past.used(entry, now)
        entry.ended = now
        self._dirty[entry.key] = entry
        self._forget(entry)
        if entry.key in self._away:
            self._away.discard(entry.key)
        else:
            self.scheduler.apply(events.JobEnded(entry.key, now))

    def _refuse(self, entry: Entry, reason: str, now: float) -> None:
        peer = self._peers.get((entry.uid, entry.home))
        if peer is not None:
            peer.send({"op": "refuse", "id": entry.id, "reason": reason})
        entry.ended = now
        self._dirty[entry.key] = entry
        self._forget(entry)
        self._audit.append((now, entry.uid, entry.job.user, "refused", entry.key, reason))

    def _forget(self, entry: Entry) -> None:
        del self.jobs[entry.key]
        self._counts[entry.uid] -= 1

    # ---- deciding -------------------------------------------------------------------------------

    def decide(self, now: float) -> None:
        """Decide, keep, and only then tell."""
        letters: list[tuple[Peer, dict[str, Any]]] = []
        while self.scheduler.is_due:
            for decision in self.scheduler.decide(now):
                entry = self.jobs[decision.job]
                peer = self._peers.get((entry.uid, entry.home))
                if isinstance(decision, Refuse):
                    self.scheduler.apply(events.JobEnded(entry.key, now))
                    self._refuse(entry, self.words(decision.reason, entry.job.user), now)
                elif isinstance(decision, Start) and peer is not None:
                    entry.state, entry.placement = RUNNING, decision.placement
                    entry.started = now
                    self._dirty[entry.key] = entry
                    self.scheduler.apply(events.JobStarted(entry.key, decision.placement, now))
                    placement = wire.plain(decision.placement)
                    letters.append((peer, {"op": "start", "id": entry.id, "placement": placement}))
                elif isinstance(decision, Grow) and peer is not None:
                    self._resize(entry, {**entry.placement, **decision.placement}, now)
                    self.scheduler.apply(events.JobGrown(entry.key, decision.placement, now))
                    placement = wire.plain(decision.placement)
                    letters.append((peer, {"op": "grow", "id": entry.id, "placement": placement}))
                elif isinstance(decision, Shrink):
                    members, whom = decision.members, decision.for_job
                    self.scheduler.apply(events.JobShrinking(entry.key, members, now, whom))
                    if peer is not None:
                        whom = self.words(whom, entry.job.user)
                        letter = {"op": "shrink", "id": entry.id, "for": whom}
                        letters.append((peer, {**letter, "members": list(members)}))
                elif isinstance(decision, Preempt):
                    self._stopping(entry, now, decision.for_job)
                    if peer is not None:  # otherwise it hears of it when it is back
                        whom = self.words(decision.for_job, entry.job.user)
                        letter = {"op": "preempt", "id": entry.id, "for": whom}
                        letters.append((peer, {**letter, "reason": decision.reason}))
        self.keep()
        self.enforcer.enforce(self.jobs.values())
        for peer, letter in letters:
            peer.send(letter)

    def keep(self) -> None:
        rows, self._dirty = [entry.row() for entry in self._dirty.values()], {}
        audit, self._audit = self._audit, []
        if rows or audit:
            try:
                self.journal.write(rows, audit)
                self.past.keep()
            except Exception:  # daemons tell it again; a full disk must not stop the machine
                log.exception("the journal cannot be written")

    def look_outside(self, found: dict[str, str]) -> None:
        """Who is on GPUs without having asked."""
        given = {gpu for entry in self.jobs.values() for gpu in entry.gpus}
        node = self.scheduler.node
        held = self.scheduler.held()
        for device, by in found.items():
            if device not in given and held.get(device) != by:
                self.scheduler.apply(events.GpuHeld(node, device, by))
        for device in [d for d in held if d not in found]:
            self.scheduler.apply(events.GpuFreed(node, device))
        self.outside = found

    def given(self) -> dict[str, int]:
        """Device -> the user who has it from us."""
        return {gpu: entry.uid for entry in self.jobs.values() for gpu in entry.gpus}

    # ---- what anybody may ask -------------------------------------------------------------------

    def find(self, ref: str) -> Entry:
        """Also one that has ended."""
        entry = self.jobs.get(ref)
        row = self.journal.job(ref) if entry is None else None
        entry = entry or (entries.from_row(row) if row is not None else None)
        if entry is None and "/" in ref and not ref.endswith("/"):  # by its name, or how it begins
            found = [each for key, each in self.jobs.items() if key.startswith(ref)]
            entry = found[0] if len(found) == 1 else None
        if entry is None:
            raise JobNotFound(f"there is no job {ref!r}", hint="`dromon ps --all-users` lists all.")
        return entry

    def daemon_of(self, entry: Entry) -> Peer:
        peer = self._peers.get((entry.uid, entry.home))
        if peer is None:
            raise EngineError(
                f"the daemon of {entry.job.user} does not run, so {entry.key} cannot be reached",
                hint="It comes back with the user's next command.",
            )
        return peer

    def may(self, person: Person, entry: Entry, what: str) -> bool:
        """`view`: its logs; `modify`: stopping it, which admins may too."""
        if person.uid in (entry.uid, 0):
            return True
        if what == "modify" and self.permissions.is_admin(person):
            return True
        names: tuple[str, ...] = getattr(entry.acls, what)
        return person.name in names or bool(person.groups.intersection(names))

    def stop(self, person: Person, ref: str, grace: float | None, now: float) -> dict[str, Any]:
        entry = self.find(ref)
        if not self.may(person, entry, "modify"):
            self._note(person, now, "stop refused", entry.key, "")
            self.keep()
            raise Refused(
                f"{entry.key} is not yours to stop",
                hint="Its user can, an admin, or somebody its `acls: {modify: […]}` names.",
            )
        if entry.ended is not None:
            return {"id": entry.key, "active": False}
        peer = self.daemon_of(entry)
        self._note(person, now, "stop", entry.key, "" if grace is None else f"grace {grace:g} s")
        self.keep()
        peer.send({"op": "stop", "id": entry.id, "by": person.name, "grace": grace})
        return {"id": entry.key, "active": True}

    def note(self, person: Person, now: float, action: str, subject: str, detail: str = "") -> None:
        self._note(person, now, action, subject, detail)
        self.keep()

    def _note(self, person: Person, now: float, action: str, subject: str, detail: str) -> None:
        self._audit.append((now, person.uid, person.name, action, subject, detail))

    def words(self, text: str, user: str) -> str:
        """To a user their own jobs are called by their ids alone."""
        return re.sub(rf"(?<![\w.-]){re.escape(user)}/", "", text)


def _same(known: Entry, told: Entry) -> bool:
    return (known.state, known.placement, known.job, known.acls) == (
        told.state,
        told.placement,
        told.job,
        told.acls,
    )
