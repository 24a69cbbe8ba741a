"""The arbiter's process: its socket, its timers, what it answers. Jobs are decided by `arbiter`.

python -m dromon.engines.local.shared.process --place FOLDER --state FOLDER …
"""

import argparse
import asyncio
import json
import logging
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Set
from logging.handlers import RotatingFileHandler
from typing import Any

from dromon import __version__
from dromon.agent.devices import Locks
from dromon.agent.frames import Message
from dromon.engines.local.clock import boot_id
from dromon.engines.local.counter import DRAINED
from dromon.engines.local.deciding import OwnScheduler
from dromon.engines.local.journal import Journal as Book
from dromon.engines.local.machine import survey
from dromon.engines.local.report import report
from dromon.engines.local.rulebook import Rulebook
from dromon.engines.local.shared import devices, entries, place, wire
from dromon.engines.local.shared.arbiter import Arbiter
from dromon.engines.local.shared.door import HINT
from dromon.engines.local.shared.journal import Journal
from dromon.engines.local.shared.orders import Enforcer
from dromon.engines.local.shared.outside import Outside, of_machine
from dromon.engines.local.shared.past import Past
from dromon.engines.local.shared.people import People, person
from dromon.engines.local.shared.permissions import Permissions
from dromon.engines.local.shared.server import Connection, Doors, listen
from dromon.engines.local.sole import take_lock
from dromon.errors import DromonError, Refused, UsageError, VersionMismatch
from dromon.sched import events
from dromon.sched.rules import Rules
from dromon.units import counted

log = logging.getLogger("dromon.arbiter")
SWEEP = 2.0
DAY = 86400.0
AGAIN = 1.0  # seconds until a GPU that somebody could not take is given out again
TELLING = ("job", "started", "stopping", "released", "declined", "ended", "checkpointed", "shrunk")
STOPS_OTHERS = re.compile(r"stop [^ ]+/")


class Process:
    def __init__(
        self,
        at: place.Place,
        state: str,
        fake_gpus: int,
        root: socket.socket | None,
        enforced: Mapping[str, str],
    ) -> None:
        self.enforced = dict(enforced)  # by root, if root has started us: limit -> how, in words
        self.loop = asyncio.get_running_loop()
        self.at = at
        self.done = asyncio.Event()
        self.started = time.time()
        self.me = person(os.getuid())
        self.machine = survey(fake_gpus)
        self.people = People()
        locks = Locks(at.path(place.GPUS) if fake_gpus else None)
        self.journal = Journal(os.path.join(state, "arbiter.db"))
        same_boot = self.journal.get("boot") == boot_id()
        self.journal.put("boot", boot_id())
        self.book = Book(os.path.join(state, "rules.db"))  # versions of the rules; past use
        self.rulebook = Rulebook(self.book)
        self.rulebook.read(time.time())
        self.rulebook.changed = self._obey
        self.permissions = Permissions(lambda: self.rulebook.site, os.getuid())
        scheduler = OwnScheduler(self.machine, self.rulebook.rules)
        kinds = {device.uuid: device.kind for device in self.machine.gpus}
        past = Past(self.book, kinds)
        past.remember(scheduler, self.rulebook.rules.half_life, time.time())
        self._forgot = 0.0  # when use of long ago was last forgotten
        numbers = {d.uuid: d.minor for d in self.machine.gpus if d.minor is not None}
        enforcer = Enforcer(root, numbers)
        self.arbiter = Arbiter(
            self.journal, scheduler, self.permissions, past, enforcer, same_boot, time.time()
        )
        if self.journal.get(DRAINED):
            scheduler.apply(events.NodeDrained(self.machine.name))
        processes = of_machine(self.machine.gpus)
        self.watch = Outside(self.machine.gpus, locks, self.people, processes)
        self._is_due = False
        self._alarm: asyncio.TimerHandle | None = None
        if root is not None:
            self.loop.add_reader(root.fileno(), self._look_for_root, root)

    def _look_for_root(self, root: socket.socket) -> None:
        """Without root's own part there is nobody to enforce anything: leave, and both begin anew.
        Its answers are read where they are waited for."""
        try:
            is_gone = not root.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            is_gone = True
        if is_gone:
            log.error("root's own part is gone")
            self.loop.remove_reader(root.fileno())
            self.done.set()

    # ---- answering ------------------------------------------------------------------------------

    def answer(self, wire: Connection, message: Message) -> Message | None:
        op = message.get("op")
        if op in TELLING or op == "told":
            if not wire.is_daemon:
                raise ValueError("no hello before")
            if op == "told":
                self.arbiter.told_all(wire, time.time())
            elif op == "declined":
                self.loop.create_task(self._declined(wire, message))
            else:
                self.arbiter.tell(wire, message, time.time())
            self.due()
            return None
        if not isinstance(op, str):
            raise ValueError("no op")
        method = getattr(self, f"on_{op}", None)
        if method is None:
            raise UsageError(f"the arbiter does not know {op[:40]!r}")
        found: Message = method(wire, message)
        return found

    def gone(self, wire: Connection) -> None:
        if wire.is_daemon:
            self.arbiter.leave(wire)
            self.due()

    def on_hello(self, peer: Connection, message: Message) -> Message:
        if message["version"] != __version__:
            raise VersionMismatch(
                f"the arbiter is Dromon {__version__}, this daemon is {message['version']}",
                hint="Whoever shares this machine restarts the arbiter after an upgrade.",
            )
        mine = sorted(device.uuid for device in self.machine.gpus)
        if sorted(wire.value(tuple[str, ...], message["gpus"])) != mine:
            raise UsageError(
                f"this daemon sees other GPUs than the arbiter, which has {len(mine)}",
                hint="`dromon daemon restart` looks anew.",
            )
        peer.home = wire.value(str, message["home"])
        peer.door = wire.value(str, message["door"])
        peer.is_daemon = True
        self.arbiter.join(peer)
        return {**self.about(), "rules": self._rules()}

    def on_devices(self, peer: Connection, message: Message) -> Message:
        """Daemons ask before anything else: which GPUs there are is not theirs to find out."""
        return devices.plain(self.machine.gpus, "gpus" in self.enforced)

    def about(self) -> Message:
        return {
            "user": self.me.name, "version": __version__, "started": self.started,
            "enforced": self.enforced,
        }  # fmt: skip

    def on_status(self, peer: Connection, message: Message) -> Message:
        return {
            **self.about(), "pid": os.getpid(), "place": self.at.root,
            "users": len({entry.uid for entry in self.arbiter.jobs.values()}),
            "jobs": len(self.arbiter.jobs), "you": peer.person.name,
            "admin": self.permissions.is_admin(peer.person),
        }  # fmt: skip

    def on_leave(self, peer: Connection, message: Message) -> Message:
        """For good: daemons decide for themselves again."""
        if not self.permissions.is_admin(peer.person):
            raise UsageError("only who shares this machine, or an admin, can end that")
        self.arbiter.note(peer.person, time.time(), "unshare", self.at.root)
        shutil.rmtree(self.at.root, ignore_errors=True)
        self.loop.call_later(0.01, self.done.set)
        return {"pid": os.getpid()}

    # ---- rules ----------------------------------------------------------------------------------

    def _rules(self) -> Message:
        book = self.rulebook
        return {"version": book.version, "data": book.data, "notes": book.notes}

    def _obey(self, rules: Rules) -> None:
        self.arbiter.scheduler.apply(events.RulesChanged(rules, time.time()))
        self.arbiter.tell_all({"op": "rules", **self._rules()})
        self.due()

    def _admin(self, peer: Connection, action: str, subject: str) -> None:
        if not self.permissions.is_admin(peer.person):
            self.arbiter.note(peer.person, time.time(), f"{action} refused", subject)
            raise Refused(
                f"{peer.person.name} is no admin of this machine",
                hint="`admins:` of the site file names them; so is whoever runs the arbiter.",
            )
        self.arbiter.note(peer.person, time.time(), action, subject)

    def on_change(self, peer: Connection, message: Message) -> Message:
        what = wire.value(str, message["what"])
        self._admin(peer, "change", what)
        if message["version"] != self.rulebook.version:
            raise UsageError("somebody else has changed the queues meanwhile", hint="Try again.")
        self._nobody_in(self.rulebook.site.queues.keys() - dict(message["data"]).get("queues", {}))
        self.rulebook.change(dict(message["data"]), peer.person.name, what, time.time())
        return self._rules()

    def _nobody_in(self, removed: Set[str]) -> None:
        here = [e for e in self.arbiter.jobs.values() if e.job.queue in removed]
        if here:
            raise UsageError(
                f"queue {here[0].job.queue} still has {counted(len(here), 'job')}: "
                + ", ".join(e.key for e in here[:3]) + ("…" if len(here) > 3 else ""),
                hint=f"`dromon queue drain {here[0].job.queue}` lets nothing new in.",
            )  # fmt: skip

    def on_versions(self, peer: Connection, message: Message) -> Message:
        limit = min(wire.value(int, message["limit"]), 1000)
        return {"versions": [each._asdict() for each in self.rulebook.history(limit)]}

    def on_drain(self, peer: Connection, message: Message) -> Message:
        drains, name = bool(message["drain"]), self.machine.name
        self._admin(peer, "drain" if drains else "open", name)
        self.journal.put(DRAINED, "yes" if drains else "")
        event = events.NodeDrained(name) if drains else events.NodeOpened(name)
        self.arbiter.scheduler.apply(event)
        self.due()
        return {"running": [e.key for e in self.arbiter.jobs.values() if e.placement]}

    def on_queues(self, peer: Connection, message: Message) -> Message:
        return {"views": self.arbiter.scheduler.queues(time.time())}

    def on_report(self, peer: Connection, message: Message) -> Message:
        start, now = wire.value(float, message["start"]), time.time()
        machine = self.machine
        total = {"cpus": machine.cpus, "memory": machine.memory, "gpus": len(machine.gpus)}
        spells = self.arbiter.past.spells(start, self.arbiter.jobs.values(), now)
        return {"report": report(spells, total, self.arbiter.scheduler.queues(now), start, now)}

    # ---- jobs -----------------------------------------------------------------------------------

    def on_admit(self, peer: Connection, message: Message) -> Message:
        key = f"{peer.person.name}/{message['job']['id']}"
        name, now = peer.person.name, time.time()
        try:
            job = entries.told(message["job"], key=key, user=name, seq=1 << 60, time=now)
        except wire.Misspoken as error:
            raise Refused(f"the arbiter does not take such a job: {error}") from None
        self.arbiter.admit(peer.person, job)
        try:
            self.arbiter.scheduler.admit(job, now)
        except DromonError as error:
            raise type(error)(self.arbiter.words(error.message, name), hint=error.hint) from None
        return {}

    def on_why(self, peer: Connection, message: Message) -> Message:
        key = str(message["id"])
        if "/" not in key:
            key = f"{peer.person.name}/{key}"
        entry = self.arbiter.find(key)
        found = wire.plain(self.arbiter.scheduler.why(entry.key, time.time()))
        mine = self._read_by(found, peer.person.name)
        if not self.permissions.is_admin(peer.person):  # what is not theirs to stop is no way out
            mine["unblock"] = [
                words for words in mine["unblock"] if "stop " not in words or "/" not in words
            ]
        if self.journal.get(DRAINED) and entry.state == entries.QUEUED:
            mine["sentence"] += f"; {self.machine.name} is drained, and nothing starts"
            mine["unblock"] = ["dromon node open"] * self.permissions.is_admin(peer.person)
        return {"waiting": mine}

    def on_would_preempt(self, peer: Connection, message: Message) -> Message:
        entry = self.arbiter.find(f"{peer.person.name}/{message['id']}")
        found = self.arbiter.scheduler.would_preempt(entry.key, time.time())
        return {"victims": self._read_by(found, peer.person.name)}

    def _read_by(self, value: Any, user: str) -> Any:
        if isinstance(value, str):
            return self.arbiter.words(value, user)
        if isinstance(value, list):
            return [self._read_by(each, user) for each in value]
        if isinstance(value, dict):
            return {key: self._read_by(each, user) for key, each in value.items()}
        return value

    def on_room(self, peer: Connection, message: Message) -> Message:
        """What is left, and who has which GPU."""
        given = {gpu: entry.key for entry in self.arbiter.jobs.values() for gpu in entry.gpus}
        return {
            "free": dict(self.arbiter.scheduler.free()),
            "given": self._read_by(given, peer.person.name),
            "outside": self.arbiter.outside,
            "drained": bool(self.journal.get(DRAINED)),
        }

    def on_everyone(self, peer: Connection, message: Message) -> Message:
        jobs = sorted(self.arbiter.jobs.values(), key=lambda entry: entry.job.seq)
        return {"jobs": [entry.seen() for entry in jobs]}

    def on_about(self, peer: Connection, message: Message) -> Message:
        return {"job": self.arbiter.find(str(message["id"])).seen()}

    def on_stop(self, peer: Connection, message: Message) -> Message:
        grace = wire.value(float, message["grace"]) if message.get("grace") is not None else None
        return self.arbiter.stop(peer.person, str(message["id"]), grace, time.time())

    def on_door(self, peer: Connection, message: Message) -> Message:
        """Where the job's own daemon shows what it shares; whether it does is that daemon's to
        say."""
        entry = self.arbiter.find(str(message["id"]))
        daemon = self.arbiter.daemon_of(entry)
        if not self.arbiter.may(peer.person, entry, "view"):
            raise Refused(f"{entry.key} is not shared with {peer.person.name}", hint=HINT)
        self.arbiter.note(peer.person, time.time(), "logs", entry.key)
        return {"path": daemon.door, "uid": entry.uid, "id": entry.id}

    def on_audit(self, peer: Connection, message: Message) -> Message:
        """Everybody sees who did what, as everybody sees the jobs."""
        return {
            "audit": self.journal.audit(min(wire.value(int, message.get("limit", 100)), 10_000))
        }

    # ---- life -----------------------------------------------------------------------------------

    def due(self) -> None:
        if not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._decide)

    def _decide(self) -> None:
        self._is_due = False
        try:
            self.arbiter.decide(time.time())
        except Exception:
            log.exception("deciding")
        if self._alarm is not None:
            self._alarm.cancel()
        wakes = self.arbiter.scheduler.wakes(time.time())
        delay = None if wakes is None else max(0.05, wakes - time.time())
        self._alarm = None if delay is None else self.loop.call_later(delay, self._wake)

    def _wake(self) -> None:
        self.arbiter.scheduler.tick()
        self.due()

    async def run(self, ready: int) -> None:
        await self._look()
        doors = Doors(self.people, self.answer, self.gone)
        server = await listen(self.at.socket, doors)
        if ready >= 0:
            os.write(ready, b"1")
            os.close(ready)
        log.info("arbiter %s serves %s as %s", __version__, self.at.root, self.me.name)
        sweeper = asyncio.ensure_future(self._sweep())
        try:
            await self.done.wait()
        finally:
            sweeper.cancel()
            server.close()
            self.arbiter.keep()
            self.journal.close()
            self.book.close()
            log.info("arbiter leaves")

    async def _look(self) -> None:
        given = self.arbiter.given()
        # In a thread: a driver may take its time.
        found = await asyncio.to_thread(self.watch.look, given)
        current = self.arbiter.given()  # what changed meanwhile is looked at next time
        settled = {d: by for d, by in found.items() if given.get(d) == current.get(d)}
        self.arbiter.look_outside(settled)
        self.due()

    async def _declined(self, wire: Connection, message: Message) -> None:
        """Its GPU is in use, it says; in a while we look ourselves, and it is given out again."""
        await asyncio.sleep(AGAIN)
        if wire.is_open:
            self.arbiter.tell(wire, message, time.time())
            await self._look()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            try:
                os.utime(self.at.root)  # those who clean up old temporary files must not take it
                self.rulebook.read(time.time())
                if time.time() - self._forgot > DAY:
                    self._forgot = time.time()
                    self.arbiter.past.forget(self.rulebook.rules.half_life, self._forgot)
                self.arbiter.look_for_leftovers(self.watch.is_gone, time.time())
                await self._look()
            except Exception:
                log.exception("sweeping")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dromon arbiter")
    parser.add_argument("--place", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--fake-gpus", type=int, default=0)
    parser.add_argument("--ready", type=int, default=-1)
    parser.add_argument("--orders", type=int, default=-1)
    parser.add_argument("--enforced", type=json.loads, default={})
    options = parser.parse_args(arguments)
    try:
        os.makedirs(options.state, mode=0o700, exist_ok=True)
        at = place.make(options.place)
        lock = take_lock(os.path.join(options.state, "arbiter.pid"), at.socket)
        if lock is None:
            raise UsageError(f"an arbiter of yours serves {at.root} already")
        _log_to(options.state)
        asyncio.run(_serve(at, options))
    except (DromonError, OSError) as error:
        said = error if isinstance(error, DromonError) else DromonError(str(error))
        json.dump(said.to_json(), sys.stderr)
        return said.exit_code
    return 0


async def _serve(at: place.Place, options: argparse.Namespace) -> None:
    root = socket.socket(fileno=options.orders) if options.orders >= 0 else None
    process = Process(at, options.state, options.fake_gpus, root, options.enforced)
    for number in (signal.SIGTERM, signal.SIGINT):
        process.loop.add_signal_handler(number, process.done.set)
    await process.run(options.ready)


def _log_to(state: str) -> None:
    path = os.path.join(state, "arbiter.log")
    handler = RotatingFileHandler(path, maxBytes=4 << 20, backupCount=2)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


if __name__ == "__main__":
    sys.exit(main())
