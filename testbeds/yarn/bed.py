"""A bed: brought up, taken down, and each of its daemons killed and started again by name.

All it knows between two commands is in DIR/bed.json. Only processes written down there are ended,
and what their containers left running.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dromon.errors import EngineError, UsageError
from testbeds import process
from testbeds.process import Process
from testbeds.yarn import config, election, groundwork, jars, ready
from testbeds.yarn import plan as plans
from testbeds.yarn.groundwork import Groundwork
from testbeds.yarn.jvm import Jvm, environment
from testbeds.yarn.plan import HOST, Options, Plan

Tell = Callable[[str], None]

UP_SECONDS = 600.0  # far beyond what it needs, for a machine that has other work
FURNISH_SECONDS = 60.0  # the same
# Whom a daemon reports to: without that one it cannot become ready, and nobody need wait for it.
NEEDS = {"namenode": "datanode", "datanode": "namenode", "node": "resourcemanager"}
ENDING = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


class BedFailed(EngineError):
    """A daemon of the test bed did not come up."""

    hint = "`python -m testbeds.yarn logs NAME` shows what it said."


class Bed:
    """Every command that changes something holds the lock of the directory."""

    def __init__(self, directory: str | os.PathLike[str], tell: Tell = lambda line: None) -> None:
        self.dir = os.path.abspath(directory)
        self._tell = tell
        if any(c in self.dir for c in " ,:;%#?$*\\"):
            raise UsageError(
                f"{self.dir} cannot be named in Hadoop's configuration.",
                hint="Use a directory without spaces, commas, colons and the like.",
            )

    # ---- what is written down -------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return os.path.exists(f"{self.dir}/bed.json")

    @property
    def plan(self) -> Plan:
        return plans.from_json(self._read()["plan"])

    @property
    def processes(self) -> dict[str, Process]:
        """Every daemon that was started and not taken down, living or not."""
        return {name: Process(**p) for name, p in self._read()["processes"].items()}

    def is_alive(self, daemon: str) -> bool:
        found = self.processes.get(daemon)
        return found is not None and found.is_alive

    def _read(self) -> dict[str, Any]:
        try:
            read: dict[str, Any] = json.loads(Path(self.dir, "bed.json").read_text())
        except FileNotFoundError:
            raise UsageError(
                f"There is no test bed in {self.dir}.",
                hint="`python -m testbeds.yarn up` makes one.",
            ) from None
        return read

    def _write(self, plan: Plan, processes: dict[str, Process]) -> None:
        written = {
            "plan": plan.to_json(),
            "processes": {name: asdict(p) for name, p in processes.items()},
        }
        new = Path(self.dir, "bed.json.new")
        new.write_text(json.dumps(written, indent=2) + "\n")
        new.rename(f"{self.dir}/bed.json")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(f"{self.dir}/lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    # ---- the whole bed --------------------------------------------------------------------------

    def up(self, options: Options) -> None:
        """Does nothing for what runs already; a bed that has other options is refused."""
        jvm, ground = self._jvm(options.hadoop)
        self._up(options, jvm, lambda plan: ground.found(_names(plan)))

    def _jvm(self, hadoop: str) -> tuple[Jvm, Groundwork]:
        """What runs its daemons. What is lacking for that is made first, once for all beds."""
        plain = Jvm(jars.find_java(), jars.fetch(hadoop, self._tell))
        ground = groundwork.laid(plain, self._rehearse, self._tell)
        return replace(plain, archive=ground.archive), ground

    def _rehearse(self, jvm: Jvm, keep: Path) -> None:
        """A bed that nobody uses, for its lists of classes and its file system while it is new."""

        def found(plan: Plan) -> None:
            first._format(plan, jvm)
            shutil.copytree(_names(plan), keep)

        with tempfile.TemporaryDirectory(prefix="dromon-yarn-", dir="/tmp") as folder:
            first = Bed(folder, self._tell)
            first._up(Options(jvm.hadoop), jvm, found)
            first.down()

    def _up(self, options: Options, jvm: Jvm, found: Callable[[Plan], None]) -> None:
        self._claim()
        with self._locked():
            plan = self._planned(options)
            self._configure(plan, jvm.place)
            if not os.path.isdir(_names(plan)):
                found(plan)
            down = [name for name in plan.daemons if not self.is_alive(name)]
            try:
                for name in down:
                    self._spawn(plan, name, jvm)
                if len(plan.managers) > 1:
                    self._wait(plan, plan.managers)
                    self._activate(plan, plan.managers[0])
                self._wait(plan, plan.daemons)
                self._furnish(plan)
            except ready.NotYet as problem:
                self._stop()
                raise BedFailed(f"The new cluster could not be furnished: it {problem}") from None
            except BedFailed:
                self._stop()
                raise

    def down(self) -> None:
        """Ends what was started here and forgets its data; what the daemons said stays."""
        if not self.exists:
            return
        with self._locked():
            self._stop()
            self._clean()

    def _claim(self) -> None:
        """Only an empty directory, or one that is a bed already, is written to."""
        os.makedirs(self.dir, exist_ok=True)
        if not self.exists and set(os.listdir(self.dir)) - {"lock"}:
            raise UsageError(
                f"{self.dir} is neither empty nor a test bed.", hint="Name another with --dir."
            )

    def _planned(self, options: Options) -> Plan:
        if self.exists and any(p.is_alive for p in self.processes.values()):
            plan = self.plan
            if plan.options != options:
                raise UsageError(
                    f"The test bed in {self.dir} runs with other options.",
                    hint="Take it down first, or name another directory with --dir.",
                )
            return plan
        self._clean()
        shutil.rmtree(f"{self.dir}/logs", ignore_errors=True)
        plan = plans.make(self.dir, options, _is_free)
        self._write(plan, {})
        return plan

    def _configure(self, plan: Plan, place: Path) -> None:
        os.makedirs(f"{self.dir}/logs", exist_ok=True)
        for name in [*plan.daemons, "client"]:
            os.makedirs(plan.conf(name), exist_ok=True)
            os.makedirs(f"{plan.data(name)}/tmp", exist_ok=True)
            for file, text in config.files(plan, name, f"{place}/jars").items():
                Path(plan.conf(name), file).write_text(text)

    def _stop(self) -> None:
        plan, processes = self.plan, self.processes
        # Who reports to another goes first: on its own it would ask for it until it is killed.
        masters = ("namenode", *plan.managers)
        process.stop([p for name, p in processes.items() if name not in masters])
        process.stop([p for name, p in processes.items() if name in masters])
        # A killed NodeManager leaves its containers behind; each names its own directories.
        process.stop(process.inheriting("LOCAL_DIRS", f"{self.dir}/data/"))
        self._write(plan, {})

    def _clean(self) -> None:
        for folder in ("conf", "data"):
            shutil.rmtree(f"{self.dir}/{folder}", ignore_errors=True)

    # ---- one daemon -----------------------------------------------------------------------------

    def kill(self, daemon: str, number: int = signal.SIGKILL) -> None:
        """Sends the signal, and waits until it is gone if that is what the signal is for."""
        self._known(daemon)
        with self._locked():
            found = self.processes.get(daemon)
            if found is None or not found.is_alive:
                raise UsageError(f"{daemon} is not running.", hint=f"`start {daemon}` starts it.")
            found.signal(number)
            if number in ENDING and not found.wait(process.GRACE * 3):
                raise EngineError(f"{daemon} did not end.", hint="Kill it with --signal KILL.")

    def start(self, daemon: str) -> None:
        """With the data it had. Does nothing when it runs."""
        self._known(daemon)
        with self._locked():
            plan = self.plan
            if not os.path.isdir(plan.conf(daemon)):
                raise UsageError(
                    f"The test bed in {self.dir} is down.", hint="Bring it `up` first."
                )
            if not self.is_alive(daemon):
                self._spawn(plan, daemon, self._jvm(plan.options.hadoop)[0])
            needed = NEEDS.get(plans.kind(daemon))
            if needed is not None and not self.is_alive(needed):
                self._tell(f"{daemon} has started; it will be ready when {needed} runs")
            else:
                # Those that report to it come back too, or nobody could use it yet.
                back = [n for n in plan.daemons if NEEDS.get(plans.kind(n)) == daemon]
                self._wait(plan, [daemon, *(n for n in back if self.is_alive(n))])

    def label(self, daemon: str, name: str) -> None:
        """Puts a node into the partition of that label; an empty name takes it out again."""
        self._known(daemon)
        if daemon not in self.plan.nodes:
            raise UsageError(f"{daemon} is not a node.", hint="Labels are for node1, node2 …")
        try:
            ready.label(self.plan, daemon, name)
        except ready.NotYet as problem:
            raise EngineError(f"The ResourceManager {problem}") from None

    def activate(self, daemon: str) -> None:
        """Of several ResourceManagers, have this one be active, and no other."""
        self._known(daemon)
        self._activate(self.plan, daemon)

    def _activate(self, plan: Plan, daemon: str) -> None:
        for other in plan.managers:
            if other != daemon and self.is_alive(other):
                election.ask(plan, other, "transitionToStandby")
        election.ask(plan, daemon, "transitionToActive")

    def _known(self, daemon: str) -> None:
        if daemon not in self.plan.daemons:
            names = ", ".join(self.plan.daemons)
            raise UsageError(f"There is no daemon {daemon!r}.", hint=f"There are {names}.")

    def _format(self, plan: Plan, jvm: Jvm) -> None:
        daemon = "namenode"
        command = [*jvm.daemon(plan, daemon), "-format", "-nonInteractive"]
        env = environment(plan.conf(daemon), jvm.java.home)
        with open(plan.log(daemon), "ab") as log:
            done = subprocess.run(
                command, env=env, cwd=self.dir, stdout=log, stderr=log, check=False
            )
        if done.returncode:
            raise self._failure(plan, daemon, "could not be formatted")

    def _spawn(self, plan: Plan, daemon: str, jvm: Jvm) -> None:
        env = environment(plan.conf(daemon), jvm.java.home)
        command = jvm.daemon(plan, daemon)
        started = process.spawn(command, log=plan.log(daemon), cwd=self.dir, env=env)
        self._write(plan, {**self.processes, daemon: started})

    def _wait(self, plan: Plan, daemons: list[str]) -> None:
        begin = time.monotonic()
        missing = dict.fromkeys(daemons, "")
        while missing:
            for daemon in list(missing):
                if not self.is_alive(daemon):
                    raise self._failure(plan, daemon, "ended while it was starting")
                try:
                    ready.check(plan, daemon)
                except ready.NotYet as why:
                    missing[daemon] = str(why)
                else:
                    del missing[daemon]
                    self._tell(f"{daemon}: ready after {time.monotonic() - begin:.0f} s")
            if missing and time.monotonic() - begin > UP_SECONDS:
                daemon, problem = next(iter(missing.items()))
                raise self._failure(plan, daemon, f"was not ready in {UP_SECONDS:.0f} s: {problem}")
            if missing:
                time.sleep(0.3)

    def _furnish(self, plan: Plan) -> None:
        """Daemons that have just come up may take long for their first answers."""
        deadline = time.monotonic() + FURNISH_SECONDS
        while True:
            try:
                return ready.prepare(plan)
            except ready.NotYet:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _failure(self, plan: Plan, daemon: str, what: str) -> BedFailed:
        lines = Path(plan.log(daemon)).read_text(errors="replace").splitlines()
        telling = [s for s in lines if " ERROR " in s or " FATAL " in s or "Exception: " in s]
        said = "\n  ".join((telling or lines)[-5:])
        return BedFailed(f"{daemon} {what}. It said:\n  {said}")


def _names(plan: Plan) -> str:
    """Where the NameNode keeps the file system's names."""
    return f"{plan.data('namenode')}/name"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the daemons do: a port whose last connections are still fading away is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
