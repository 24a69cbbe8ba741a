"""The daemon's process: start, recover, serve, leave when idle. The loop and its timers.

Jobs are decided by the arbiter, started by the runner, asked about at the desk; this file ties
them to one asyncio loop.
"""

import argparse
import asyncio
import gc
import getpass
import grp
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Any

from dromon import __version__
from dromon.agent.devices import VARIABLES, Locks
from dromon.agent.frames import Message
from dromon.agent.record import Record
from dromon.coordinator.coordinator import BYE, STALE, Effect, Keep, Send
from dromon.coordinator.door import Admitted
from dromon.engines.home import Home
from dromon.engines.intake import Intake
from dromon.engines.local import recovery, server
from dromon.engines.local.arbiter import Arbiter
from dromon.engines.local.awaited import Come, gather
from dromon.engines.local.cgroups import Cgroups
from dromon.engines.local.clock import Clock
from dromon.engines.local.desk import Desk
from dromon.engines.local.jobs import Job
from dromon.engines.local.journal import Journal, JournalFull
from dromon.engines.local.lines import Lines
from dromon.engines.local.machine import Machine, having, survey
from dromon.engines.local.rulebook import Rulebook
from dromon.engines.local.runner import Runner
from dromon.engines.local.shared import place as shared
from dromon.engines.local.sole import take_lock
from dromon.engines.local.starts import Starts
from dromon.errors import DromonError
from dromon.lifecycle import events as ev
from dromon.sched.rules import Rules
from dromon.storage.blobs import BlobStore

if TYPE_CHECKING:
    from dromon.engines.local.shared.scheduler import SharedScheduler

log = logging.getLogger("dromon.daemon")
IDLE = 900.0  # leaves after so long without jobs and commands
SWEEP = 2.0
SETTLE = 0.05  # what happens to single members, and leads to nothing yet, is journalled together
LATE = 0.2  # after which watchers hear of it
SOON = 0.2  # when somebody waits for what only another user's daemon can let go
RETRY = 1.0  # after the disk refused the journal


class Daemon:
    """Everything of one user's daemon, living on one loop."""

    def __init__(
        self, home: Home, fake_gpus: int, stay: bool, idle: float = IDLE, alone: bool = False
    ) -> None:
        self.home = home
        self.loop = asyncio.get_running_loop()
        self.alone = alone
        self.place = None if alone else shared.find()  # of the arbiter that decides for us
        self.begins_anew = False  # another one is to decide from now on
        self.stay = stay
        self.idle = idle
        self.started = time.time()
        self.journal = Journal(home.journal)
        self.clock = Clock(self.journal)
        self.blobs = BlobStore(home.blobs)
        if self.place is not None:  # which GPUs are handed out is the arbiter's to say
            for variable in (name for names in VARIABLES.values() for name in names):
                os.environ.pop(variable, None)
        self.machine = self._survey(fake_gpus)
        # Fake GPUs are this home's own, unless it is told to share them.
        fake = any(device.vendor == "fake" for device in self.machine.gpus)
        own = fake and "DROMON_GPU_LOCKS" not in os.environ
        pretended = self.place.path(shared.GPUS) if self.place else home.path("gpus")
        locks = Locks(pretended if own else None, together=self.place is not None)
        user = getpass.getuser()
        self.lines = Lines(self.loop, self)
        self.starts = Starts(self.loop, self._send, int(self.machine.cpus))
        self.runner = Runner(
            home, self.machine, self.blobs, locks, self.lines, user, self.loop,
            happen=self.happen, built=self.built, kept=self.kept, gather=self.gather,
            begin=self._begin_launcher,
        )  # fmt: skip
        self.shared: SharedScheduler | None = None  # most machines need none of its modules
        self.rulebook = Rulebook(self.journal) if self.place is None else self._share(self.place)
        self.rulebook.read(self.clock.now())
        self.rulebook.changed = self._obey
        self.arbiter = Arbiter(
            self.journal, self.machine, locks, self, user, self.shared, self.rulebook, _groups()
        )
        intake = Intake(self.blobs, home.path("index"), ours=home.ours)
        self.desk = self._desk(intake)
        self.agents: dict[int, server.Peer] = {}
        self.commands: set[server.Command] = set()
        self.last_used = self.loop.time()
        self.done = asyncio.Event()
        self._keys: dict[str, bytes] = {}
        self._flush_is_due = False
        self._settling: asyncio.TimerHandle | None = None
        self._tell_is_due = False
        self._alarm: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None

    # ---- a shared machine -----------------------------------------------------------------------

    def _survey(self, fake_gpus: int) -> Machine:
        if self.place is None:
            return survey(fake_gpus)
        from dromon.engines.local.shared import devices

        return having(*devices.asked(self.place, self.home.path("devices.json"), fake_gpus))

    def _share(self, at: shared.Place) -> Rulebook:
        """The arbiter there decides, by its own rules."""
        from dromon.engines.local.shared.door import Door
        from dromon.engines.local.shared.rulebook import SharedRulebook
        from dromon.engines.local.shared.scheduler import SharedScheduler

        def acls(id: str) -> Mapping[str, Any]:
            job = self.arbiter.jobs.get(id)
            return (job.request["job"].get("acls") or {}) if job else {}

        def stop(id: str, by: str, grace: float | None) -> None:
            job = self.arbiter.jobs.get(id)
            if job is not None:
                self.happen(job, ev.StopRequested(by=by, grace=grace))

        gpus = [device.uuid for device in self.machine.gpus]
        book = SharedRulebook(at, self.home.path("rules.json"))
        self.shared = SharedScheduler(
            at,
            self.home.root,
            gpus,
            self.loop,
            acls,
            self.due,
            stop,
            book,
            Door(at, self.home.root),
        )
        return book

    def _desk(self, intake: Intake) -> Desk:
        if self.shared is None:
            return Desk(self, intake)
        from dromon.engines.local.shared.desk import SharedDesk

        return SharedDesk(self, intake, self.shared)

    def _begin_launcher(self) -> socket.socket | None:
        """Where root shares this machine it begins our launcher, inside our cgroup."""
        begun = shared.launcher(self.place) if self.place is not None else None
        if begun is None:
            return None
        sock, version, cgroup = begun
        cgroups = Cgroups(cgroup, version) if version else None
        self.machine = self.runner.machine = replace(self.machine, cgroups=cgroups)
        return sock

    def _look_who_decides(self) -> None:
        """An arbiter has come, or has left for good: begin anew, which touches no job."""
        if not self.alone and shared.find() != self.place:
            log.info("who decides has changed: %s", shared.find())
            self.begins_anew = True
            self.done.set()

    def _obey(self, rules: Rules) -> None:
        self.arbiter.obey(self.clock.now())
        self.due()

    # ---- the arbiter's hands --------------------------------------------------------------------

    def send(self, peer: int, message: dict[str, Any]) -> None:
        self.starts.send(peer, message)

    def _send(self, peer: int, message: dict[str, Any]) -> None:
        wire = self.agents.get(peer)
        if wire is not None:
            wire.send(message)

    def prepare(self, job: Job) -> None:
        self.runner.prepare(job)

    def launch(self, job: Job, launches: list[ev.Launch]) -> None:
        self.runner.launch(job, launches)

    def keep_outputs(self, job: Job) -> None:
        self.runner.keep_outputs(job)

    def clean(self, job: Job) -> None:
        self.runner.clean(job)
        self._keys.pop(job.id, None)

    # ---- things happen --------------------------------------------------------------------------

    def happen(self, job: Job, event: ev.Event) -> None:
        if job.id in self.arbiter.jobs and not job.gang.is_terminal:
            self.arbiter.happen(job, event, self.clock.now())
            self.due()

    def built(self, job: Job, environment: Mapping[str, Any], pin: int) -> None:
        if job.id in self.arbiter.jobs and not job.gang.is_terminal:
            self.arbiter.environment_built(job, environment, self.clock.now())
        self.arbiter.again(os.close, pin)
        self.due()

    def kept(self, job: Job) -> None:
        self.arbiter.close(job, self.clock.now())
        self.due()

    def gather(self, job: Job, launches: list[ev.Launch], come: Come) -> None:
        there = gather(job, launches, come, self.agents)
        if there is not None:
            self.happen(job, there)

    def due(self) -> None:
        """Flush once the loop has taken in what lies ready: one commit for all of it."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self.loop.call_soon(self.flush)

    def _carry_out(self, job: Job, effects: list[Effect]) -> None:
        """What follows from an agent's word. The first members of a gang to be ready, and all but
        the last to end, are told nothing that could not wait a moment."""
        if not effects:
            return
        self.arbiter.carry_out(job, effects, self.clock.now())
        for effect in effects:
            if not isinstance(effect, Keep) and not is_bye(effect):
                self.due()
                return
        if self._settling is None:
            self._settling = self.loop.call_later(SETTLE, self.flush)

    def settle(self) -> None:
        """So that a question sees all that has happened."""
        if self._settling is not None:
            self.flush()

    def flush(self) -> None:
        self._flush_is_due = False
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        try:
            self.arbiter.flush(self.clock.now())
        except JournalFull as error:
            log.error("%s; trying again", error)
            self._flush_is_due = True
            self.loop.call_later(RETRY, self.flush)
            return
        self._set_alarm()
        if self.arbiter.late and not self._tell_is_due:
            self._tell_is_due = True
            self.loop.call_later(LATE, self._tell_late)
        if self._look is None and self.arbiter.waits_for_others:
            self._look = self.loop.call_later(SOON, self._look_at_gpus)

    def _tell_late(self) -> None:
        self._tell_is_due = False
        self.arbiter.tell_late()

    def _look_at_gpus(self) -> None:
        self._look = None
        self.arbiter.look_for_freed_gpus()
        self.due()

    def _set_alarm(self) -> None:
        """Wake up when the first gang wants to, or the scheduler."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        wakes = [job.gang.wake_at for job in self.arbiter.awake() if job.gang.wake_at is not None]
        now = self.clock.now()
        if (at := self.arbiter.scheduler.wakes(now)) is not None:
            wakes.append(at)
        if wakes:
            delay = max(0.0, min(wakes) - now)
            self._alarm = self.loop.call_later(delay + 0.001, self._tick)

    def _tick(self) -> None:
        now = self.clock.now()
        for job in list(self.arbiter.awake()):
            if job.gang.wake_at is not None and job.gang.wake_at <= now:
                self.arbiter.happen(job, ev.Tick(), now)
        self.arbiter.scheduler.tick()
        self.due()

    # ---- agents ---------------------------------------------------------------------------------

    def key_of(self, job: str) -> bytes | None:
        if job not in self.arbiter.jobs:
            return None
        if job not in self._keys:
            try:
                with open(Record(self.home.record(job)).key) as file:
                    self._keys[job] = file.read().encode()
            except OSError:
                return None
        return self._keys[job]

    def on_hello(self, wire: server.Peer, admitted: Admitted) -> None:
        job = self.arbiter.jobs.get(admitted.job)
        if job is None:  # it ended while its agent was on its way
            wire.send(STALE)
            return
        self.agents[wire.number] = wire
        self._carry_out(job, job.coordinator.on_hello(wire.number, admitted.member, admitted.run))

    def on_message(self, wire: server.Peer, message: Message) -> None:
        assert wire.admitted is not None
        if message.get("op") == "exited":
            self.starts.ended(wire.number)
        job = self.arbiter.jobs.get(wire.admitted.job)
        if job is None:  # it ended while this was on its way
            wire.send(BYE)
            return
        admitted, now = wire.admitted, self.clock.now()
        self._carry_out(
            job,
            job.coordinator.on_message(wire.number, admitted.member, admitted.run, message, now),
        )
        if message.get("op") == "saved":
            self.arbiter.saved(job)
            self.due()

    def on_gone(self, wire: server.Peer) -> None:
        self.agents.pop(wire.number, None)
        self.starts.ended(wire.number)
        assert wire.admitted is not None
        job = self.arbiter.jobs.get(wire.admitted.job)
        if job is None:
            return
        member = job.coordinator.on_gone(wire.number)
        if member is not None and not wire.dismissed:
            self.loop.call_later(0.05, self._look_at, job, member, wire.admitted.run)

    def _look_at(self, job: Job, member: str, run: int) -> None:
        gone = job.id not in self.arbiter.jobs or member in job.coordinator.peers
        if not gone and job.gang.members[member].run == run and job.placement is not None:
            now = self.clock.now()
            recovery.look_at(self.arbiter, self.home, job, member, run, now, at_once=True)
            self.due()

    # ---- life -----------------------------------------------------------------------------------

    async def run(self, ready: int) -> None:
        recovery.recover(self.arbiter, self.home, self.clock.now(), self.clock.same_boot)
        if self.shared is not None:
            self.shared.open()
        self.runner.start_launcher()
        agents = await server.listen(self.home.agents_socket, lambda: server.Agent(self))
        self.flush()
        commands = await server.listen(self.home.socket, self._command)
        gc.collect()
        gc.freeze()  # what is imported stays: no need to look through it again and again
        if ready >= 0:
            os.write(ready, b"1")
            os.close(ready)
        log.info("daemon %s serves %s", __version__, self.home.root)
        sweeper = asyncio.ensure_future(self._sweep())
        try:
            await self.done.wait()
        finally:
            sweeper.cancel()
            if self.shared is not None:
                self.shared.close()
            commands.close()
            agents.close()
            os.unlink(self.home.socket)
            await asyncio.sleep(0)
            self.runner.close()
            self.journal.close()
            log.info("daemon leaves")

    def _command(self) -> server.Command:
        wire = server.Command(self.desk.answer, self.commands.discard)
        self.commands.add(wire)
        return wire

    async def _sweep(self) -> None:
        """Now and then: members nobody hears of, GPUs other users let go, nothing to do at all."""
        beat = min(SWEEP, max(self.idle, 0.05))
        while True:
            await asyncio.sleep(beat)
            try:
                self.lines.look_around()
                self._look_who_decides()
                self.arbiter.look_for_freed_gpus()
                self.rulebook.read(self.clock.now())
                recovery.sweep(self.arbiter, self.home, self.clock.now())
                self.due()
                self.commands = {c for c in self.commands if c.is_open}
                if self.arbiter.jobs or self.commands or self.stay:
                    self.last_used = self.loop.time()
                elif self.loop.time() - self.last_used >= self.idle:
                    self.done.set()
            except Exception:
                log.exception("sweeping")


def _groups() -> frozenset[str]:
    """Those of this process, by name; a group without one is nobody's in a site file."""
    found = set()
    for gid in {os.getgid(), *os.getgroups()}:
        try:
            found.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            pass
    return frozenset(found)


def is_bye(effect: Effect) -> bool:
    return isinstance(effect, Send) and effect.message is BYE


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dromon daemon")
    parser.add_argument("--home", required=True)
    parser.add_argument("--fake-gpus", type=int, default=0)
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--idle", type=float, default=IDLE, metavar="SECONDS")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--ready", type=int, default=-1)
    options = parser.parse_args(arguments)
    home = Home(options.home)
    begins_anew = False
    try:
        home.make()
        lock = take_lock(home.path("daemon.pid"), home.socket)
        if lock is None:
            return 0  # another daemon serves this home already
        _log_to(home)
        begins_anew = asyncio.run(_serve(home, options))
    except DromonError as error:
        # The command that started us waits for a socket or for this.
        with open(os.path.join(home.runtime, "daemon.error"), "w") as file:
            json.dump(error.to_json(), file)
        return error.exit_code
    # Without waiting for builders and copiers: what they leave half done is done again by the
    # next daemon, and that one must not wait for an hour's build.
    logging.shutdown()
    if begins_anew:
        words = ["--home", home.root, "--fake-gpus", str(options.fake_gpus)]
        words += ["--stay"] * options.stay + ["--idle", str(options.idle)]
        os.execv(sys.executable, [sys.executable, "-m", "dromon.engines.local.daemon", *words])
    os._exit(0)


async def _serve(home: Home, options: argparse.Namespace) -> bool:
    """Whether it is to begin anew."""
    daemon = Daemon(home, options.fake_gpus, options.stay, options.idle, options.alone)
    for number in (signal.SIGTERM, signal.SIGINT):
        daemon.loop.add_signal_handler(number, daemon.done.set)
    await daemon.run(options.ready)
    options.stay = daemon.stay
    return daemon.begins_anew


def _log_to(home: Home) -> None:
    handler = RotatingFileHandler(home.path("daemon.log"), maxBytes=4 << 20, backupCount=2)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


if __name__ == "__main__":
    sys.exit(main())
