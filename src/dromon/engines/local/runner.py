"""The daemon's hands: environments, working directories, the launcher, outputs, cleaning up.

Slow things happen in threads and come back to the loop as events. Nothing is decided here.
"""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import dromon
from dromon import frameworks
from dromon.agent import devices as gpus
from dromon.agent.frames import Message
from dromon.agent.launcher import send_launch
from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.engines import outputs
from dromon.engines.home import Home, write_private
from dromon.engines.local.awaited import Come, is_wanted
from dromon.engines.local.collect import Environments
from dromon.engines.local.jobs import Job
from dromon.engines.local.lines import Line, Lines
from dromon.engines.local.machine import Machine
from dromon.engines.local.server import Peer
from dromon.engines.local.spares import Spares
from dromon.errors import DromonError
from dromon.lifecycle import events as ev
from dromon.packaging import environment, lightapp, payload, snapshot
from dromon.storage.blobs import BlobStore

log = logging.getLogger("dromon.runner")


class Runner:
    """Starts members. `happen(job, event)`, `built(job, environment, pin)` and `kept(job)` lead
    back to the loop; the pin is to be closed once the journal names the environment."""

    def __init__(
        self,
        home: Home,
        machine: Machine,
        blobs: BlobStore,
        locks: gpus.Locks,
        lines: Lines,
        user: str,
        loop: asyncio.AbstractEventLoop,
        happen: Callable[[Job, ev.Event], None],
        built: Callable[[Job, Mapping[str, Any], int], None],
        kept: Callable[[Job], None],
        gather: Callable[[Job, list[ev.Launch], Come], None],
        begin: Callable[[], socket.socket | None] = lambda: None,
    ) -> None:
        self.home = home
        self.machine = machine
        self.blobs = blobs
        self.locks = locks
        self.lines = lines
        self.user = user
        self.loop = loop
        self.happen = happen
        self.built = built
        self.kept = kept
        self.gather = gather  # at the barrier, without their agents
        self.begin = begin  # a launcher that somebody else has started for us
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="runner")
        self.builders = ThreadPoolExecutor(2, thread_name_prefix="builder")
        self.cleaner = ThreadPoolExecutor(1, thread_name_prefix="cleaner")
        self._launcher: socket.socket | None = None
        self._launcher_process: subprocess.Popen[bytes] | None = None
        self._light = lightapp.build(home.path("light"), engine="local").path
        self._devices = {d.uuid: d for d in machine.gpus}
        address = f"unix:{home.agents_socket}"
        self._spares = Spares(home.path("spares"), address, self._later)
        self._laying_out: set[str] = set()  # working directories being copied

    # ---- before the queue -----------------------------------------------------------------------

    def prepare(self, job: Job) -> None:
        """Resolve and build the environment; then Prepared, or PrepareFailed in uv's words."""
        asked = job.request["environment"]
        cache = Environments(self.home)

        def progress(text: str) -> None:
            job.progress = text

        def build() -> tuple[dict[str, Any], int]:
            pin = cache.pin()
            try:
                return found(), pin
            except BaseException:
                os.close(pin)
                raise

        def found() -> dict[str, Any]:
            if "lock" in asked:  # a rerun: what was resolved then is what runs now
                lock = environment.Lock(**asked["lock"])
            else:
                progress("resolving")
                lock = environment.resolve(
                    asked["request"], asked["base"], self.home.cache, asked["python_hint"]
                )
            python = environment.build(lock, self.home.cache, progress)
            return {**asked, "python": python, "digest": lock.digest, "lock": lock.to_json()}

        def done(future: "asyncio.Future[tuple[dict[str, Any], int]]") -> None:
            error = future.exception()
            if error is None:
                self.built(job, *future.result())
            elif isinstance(error, DromonError):
                self.happen(job, ev.PrepareFailed("environment", error.message))
            else:
                log.error("building the environment of %s", job.id, exc_info=error)
                self.happen(job, ev.PrepareFailed("internal", repr(error)))

        self.loop.run_in_executor(self.builders, build).add_done_callback(done)

    # ---- members start --------------------------------------------------------------------------

    def launch(self, job: Job, launches: list[ev.Launch]) -> None:
        """Have agents started, and lay out what their members need. Without launches: only that.

        With nothing to copy that comes last: the barrier opens on this very loop, so not before
        we are done here, and agents that have something to reserve come to it meanwhile.
        """
        record = Record(self.home.record(job.id))
        work = record.work(job.gang.attempt)
        if os.path.isdir(work):
            self._launch_all(job, record, launches)
            return
        if work in self._laying_out:
            return  # a sweep came by; whoever copies launches them all
        code = job.request["code"]
        if code is None or code["digest"] == snapshot.EMPTY:
            try:
                self._open_record(record)
                self._launch_all(job, record, launches)
                self._lay_out(job, record)
                os.mkdir(work)
            except OSError as error:
                self._could_not_launch(job, launches, error)
            return

        def copy() -> None:
            self._open_record(record)
            self._lay_out(job, record)
            snapshot.materialise(code["digest"], self.blobs, work)

        def done(future: "asyncio.Future[None]") -> None:
            self._laying_out.discard(work)
            error = future.exception()
            if error is None:
                self._launch_all(job, record, launches)
            else:
                self._could_not_launch(job, launches, error)

        self._laying_out.add(work)
        self.loop.run_in_executor(self.threads, copy).add_done_callback(done)

    def _could_not_launch(self, job: Job, launches: list[ev.Launch], error: BaseException) -> None:
        text = error.message if isinstance(error, DromonError) else str(error)
        log.error("laying out %s: %s", job.id, text)
        for each in launches:
            exit = {"cause": "internal", "message": f"could not lay out the code: {text}"}
            self.happen(job, ev.MemberExited(each.member, each.run, exit))

    def _later(self, delay: float, work: Callable[[], None]) -> None:
        def wait() -> None:
            self.loop.call_later(delay, lambda: self.threads.submit(work))

        self.loop.call_soon_threadsafe(wait)

    def _open_record(self, record: Record) -> None:
        if not _has_content(record.coordinator):
            self._spares.become(record.root)

    def _lay_out(self, job: Job, record: Record) -> None:
        """What a member finds when it starts, besides its code."""
        for name, path in job.request["volumes"].items():
            if path == record.path("volumes", name):
                os.makedirs(path, exist_ok=True)
        if job.request["config"]:
            write_private(record.config, json.dumps(job.request["config"]))

    def _launch_all(self, job: Job, record: Record, launches: list[ev.Launch]) -> None:
        plans: dict[Any, AgentPlan] = {}  # those of one role differ in little
        waiting: list[ev.Launch] = []

        def come(each: ev.Launch, stood: Peer, first: Message) -> Line | None:
            if not is_wanted(job, each):
                return None
            plan = self._plan(job, record, each, plans)
            return self.lines.launch(plan, (), self._fork, stood, first)

        for each in launches:
            if job.placement is None:
                return  # stopped or preempted meanwhile
            if not job.placement[each.member].gpus and not self._ports(job, each.member):
                waiting.append(each)
                continue
            plan = self._plan(job, record, each, plans)
            fds = self._gpu_fds(job, each.member)
            if fds is None:
                continue  # the last run still lets go of its GPU; the sweep launches it again
            self.lines.launch(plan, fds, self._fork)
        if waiting:
            self.gather(job, waiting, come)
        if not os.path.exists(record.request):
            # For whoever reads the record without us; nobody waits for it.
            self.threads.submit(write_private, record.request, json.dumps(job.request))

    def _gpu_fds(self, job: Job, member: str) -> list[int] | None:
        """The descriptors that hold this member's GPUs; a restarted daemon takes them anew."""
        assert job.placement is not None
        seat = job.placement[member]
        for gpu in seat.gpus:
            if gpu not in job.gpu_fds:
                holder = {"user": self.user, "job": job.id}
                fd = self.locks.take(gpu, holder, seat.part < 1)
                if fd is None and seat.part < 1:
                    continue  # whoever has the other part of it holds it
                if fd is None:
                    return None
                job.gpu_fds[gpu] = fd
        return [job.gpu_fds[gpu] for gpu in seat.gpus if gpu in job.gpu_fds]

    def _plan(
        self, job: Job, record: Record, launch: ev.Launch, plans: dict[Any, AgentPlan]
    ) -> AgentPlan:
        assert job.placement is not None
        role, _, index = launch.member.rpartition("-")
        gpus = job.placement[launch.member].gpus
        if (role, gpus) not in plans:
            plans[role, gpus] = self._role_plan(job, record, launch, role)
        plan = plans[role, gpus]
        return plan.like(
            index=int(index),
            run=launch.run,
            ports=self._ports(job, launch.member),
            cgroups=self._cgroup(job, launch, plan.memory),
        )

    def _role_plan(self, job: Job, record: Record, launch: ev.Launch, role: str) -> AgentPlan:
        """Of a role's members that have the same GPUs, or none."""
        assert job.placement is not None
        asked = job.request["roles"][role]
        devices = [self._devices[gpu] for gpu in job.placement[launch.member].gpus]
        return AgentPlan(
            job=job.id,
            role=role,
            index=0,
            run=0,
            attempt=launch.attempt,
            record=record.root,
            work=record.work(launch.attempt),
            command=self._command(job, asked["command"]),
            framework=job.request["framework"],
            processes=asked["processes"],
            env=self._environment(job, asked, devices),
            secrets=self.home.secrets(job.id) if job.request["supplied"] else "",
            grace=job.request["gang"]["stop_grace"],
            memory=asked["memory"],
            together=True,
        )

    @staticmethod
    def _ports(job: Job, member: str) -> int:
        role, _, index = member.rpartition("-")
        processes = job.request["roles"][role]["processes"]
        return frameworks.ports_needed(job.request["framework"], role, int(index), processes)

    @cached_property
    def _function_runner(self) -> str:
        return payload.runner(self.home.path("light"))

    def _command(self, job: Job, command: str | list[str]) -> str | list[str]:
        python = job.environment.get("python", "python3")
        if job.request["payload"]:
            function = self.blobs.path(job.request["payload"]["digest"])
            return [python, os.path.join(self._function_runner, "run.py"), function]
        if isinstance(command, list) and command[0] in ("python", "python3"):
            return [python, *command[1:]]
        return command

    def _environment(
        self, job: Job, asked: Mapping[str, Any], devices: list[gpus.Device]
    ) -> dict[str, str]:
        """Host, engine and user variables; the agent adds the framework's and its own."""
        env = dict(job.request["facts"].get("inherited", {}))
        python = job.environment.get("python", "")
        folder = os.path.dirname(python)
        root = os.path.dirname(folder)
        if os.path.exists(os.path.join(root, "pyvenv.cfg")):
            # `python` in a command means the job's, also where the caller had not activated it.
            env["PATH"] = f"{folder}:{env.get('PATH', os.defpath)}"
            env["VIRTUAL_ENV"] = root
        if job.environment["kind"] == "uv":
            env.pop("PYTHONPATH", None)
        if python != sys.executable:
            # `import dromon` for context() works in any environment, without installing it there.
            env["PYTHONPATH"] = ":".join(filter(None, (env.get("PYTHONPATH"), self._light)))
        env["DROMON_HOME"] = self.home.root
        env["DROMON_JOB_NAME"] = job.name
        for name, path in job.request["volumes"].items():
            env["DROMON_VOLUME_" + name.upper().replace("-", "_")] = path
        if self.machine.gpus:
            env.update(gpus.visible(devices, self.machine.gpus, self.machine.gated))
        return {**env, **asked["env"]}

    def _cgroup(self, job: Job, launch: ev.Launch, memory: int | None) -> tuple[str, ...]:
        if memory is None or self.machine.cgroups is None:
            return ()
        name = f"dromon-{job.id}-{launch.member}-{launch.run}"
        try:
            return (self.machine.cgroups.make(name, memory),)
        except OSError as error:
            log.warning("no cgroup for %s: %s", name, error)
            return ()

    # ---- the launcher ---------------------------------------------------------------------------

    def start_launcher(self) -> None:
        self._launcher = self.begin()
        if self._launcher is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        keep = {k: os.environ[k] for k in ("PATH", "HOME", "LANG", "USER") if k in os.environ}
        # The same Dromon as ours, however we were found.
        keep["PYTHONPATH"] = os.path.dirname(os.path.dirname(dromon.__file__))
        with theirs:
            self._launcher_process = subprocess.Popen(
                [sys.executable, "-m", "dromon.agent.launcher", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),), env=keep, stdin=subprocess.DEVNULL, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        self._launcher = ours

    def _fork(
        self, plan: AgentPlan, fds: Sequence[int], line: socket.socket, at_once: bool
    ) -> None:
        for _ in range(2):
            if self._launcher is None:
                self.start_launcher()
            assert self._launcher is not None
            try:
                send_launch(self._launcher, plan, fds, line, at_once)
                return
            except OSError as error:
                log.warning("the launcher is gone (%s); starting another", error)
                self._launcher.close()
                self._launcher = None
        log.error("no launcher takes %s/%s", plan.job, plan.member)

    def close(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
        if self._launcher_process is not None:
            self._launcher_process.wait()
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.builders.shutdown(wait=False, cancel_futures=True)
        self.cleaner.shutdown(wait=False, cancel_futures=True)

    # ---- after the end --------------------------------------------------------------------------

    def keep_outputs(self, job: Job) -> None:
        record = Record(self.home.record(job.id))

        def keep() -> None:
            with self.blobs.pinned():
                outputs.keep(record, job.gang.attempt, job.request["outputs"], self.blobs)

        def done(future: "asyncio.Future[None]") -> None:
            error = future.exception()
            if error is not None:
                log.error("keeping the outputs of %s", job.id, exc_info=error)
                outputs.note_failure(record, job.request["outputs"], str(error))
            self.kept(job)

        self.loop.run_in_executor(self.threads, keep).add_done_callback(done)

    def clean(self, job: Job) -> None:
        record = Record(self.home.record(job.id))
        for path in (self.home.secrets(job.id), record.key):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        cgroups = self.machine.cgroups
        if cgroups is not None and any(r["memory"] for r in job.request["roles"].values()):
            self.threads.submit(cgroups.remove_all, f"dromon-{job.id}-")


def _has_content(path: str) -> bool:
    """There, and not the empty file of a daemon that was killed between making and writing it."""
    try:
        return os.path.getsize(path) > 0
    except FileNotFoundError:
        return False
