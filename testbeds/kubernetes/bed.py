"""A bed: brought up, taken down, and each of its components killed and started again by name.

All it knows between two commands is in DIR/bed.json. What is ended is what is in the bed's own
control groups; what is removed is the bed's own namespaces, groups and interface.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dromon.errors import EngineError, UsageError
from testbeds import cache, process
from testbeds.kubernetes import (
    cgroups,
    commands,
    furnish,
    images,
    machine,
    network,
    programs,
    ready,
    users,
)
from testbeds.kubernetes import plan as plans
from testbeds.kubernetes.api import NotYet
from testbeds.kubernetes.plan import Options, Plan
from testbeds.kubernetes.programs import Programs
from testbeds.process import Process

Tell = Callable[[str], None]

UP_SECONDS = 240.0  # far beyond what it needs, for a machine that has other work
FIRST = ("etcd", "apiserver")  # the others end when they find no API server
ENDING = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# Without these a component cannot become ready, and nobody need wait for it.
NEEDS = {"apiserver": ["etcd"], "node": ["apiserver", "containerd"], "dns": ["apiserver"]}


class BedFailed(EngineError):
    """A component of the test bed did not come up."""

    hint = "`python -m testbeds.kubernetes logs NAME` shows what it said."


class RootNeeded(EngineError):
    """Namespaces, control groups and mounts are root's."""

    hint = "Run it as root, or in a virtual machine or container that lets you be root."


def need_root() -> None:
    if os.geteuid():
        raise RootNeeded("The test bed runs real kubelets and must be root.")


class Bed:
    """Every command that changes something holds the lock of the directory."""

    def __init__(self, directory: str | os.PathLike[str], tell: Tell = lambda line: None) -> None:
        self.dir = os.path.abspath(directory)
        self.tell = tell
        if any(c in self.dir for c in ' ,:;%#?$*\\"'):
            raise UsageError(
                f"{self.dir} cannot be named in Kubernetes' configuration.",
                hint="Use a directory without spaces, commas, colons and the like.",
            )
        if self.dir.startswith(("/var/lib/", "/var/log/", "/run/")):
            raise UsageError(
                f"{self.dir} is where nodes have files of their own.",
                hint="Name another with --dir.",
            )

    # ---- what is written down -------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return os.path.exists(f"{self.dir}/bed.json")

    @property
    def plan(self) -> Plan:
        return plans.from_json(self._read()["plan"])

    @property
    def kubeconfig(self) -> str:
        """Of the administrator; `kubeconfig_of` has the users'."""
        return self.plan.kubeconfig

    @property
    def shared(self) -> str:
        """The same directory here and, by hostPath, in every pod: the site's file server."""
        return self.plan.shared

    def kubeconfig_of(self, user: str) -> str:
        """alice (by certificate), alice-token, bob (who may do nothing)."""
        return f"{self.dir}/{user}.kubeconfig"

    @property
    def processes(self) -> dict[str, Process]:
        """Every component that was started and not taken down, living or not; `node1-mounts`
        holds a node's mounts."""
        return {name: Process(**p) for name, p in self._read()["processes"].items()}

    def is_alive(self, component: str) -> bool:
        found = self.processes.get(component)
        return found is not None and found.is_alive

    def check(self, component: str) -> None:
        """Raises NotYet unless it does its work."""
        n = plans.number(component)
        ready.check(self.plan, component, self.processes.get(f"node{n}-mounts"))

    def _read(self) -> dict[str, Any]:
        try:
            read: dict[str, Any] = json.loads(Path(self.dir, "bed.json").read_text())
        except FileNotFoundError:
            raise UsageError(
                f"There is no test bed in {self.dir}.",
                hint="`python -m testbeds.kubernetes up` makes one.",
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
        need_root()
        self._claim()
        tools = programs.get(self.tell)
        archives = images.archives(self.tell)
        with self._locked():
            with cache.lock("kubernetes-networks"):  # one bed at a time looks for a free one
                plan = self._planned(options)
                network.make(plan)
            try:
                self._configure(plan, tools)
                self._bring_up(plan, tools, archives)
            except NotYet as problem:
                self._stop(plan)
                raise BedFailed(f"The new cluster could not be furnished: it {problem}") from None
            except EngineError:
                self._stop(plan)
                raise

    def down(self) -> None:
        """Ends what was started here and forgets its data; what the components said stays."""
        if not self.exists:
            return
        with self._locked():
            self._stop(self.plan)
            self._clean()

    def _bring_up(self, plan: Plan, tools: Programs, archives: list[Path]) -> None:
        begin = time.monotonic()
        cgroups.make(plan)
        for name in FIRST:
            self._spawn(plan, tools, name)
        with ThreadPoolExecutor(max_workers=len(plan.numbers)) as pool:
            for n in plan.numbers:
                self._spawn(plan, tools, f"containerd{n}")
            lacking = [n for n in plan.numbers if not self._imported(plan, n).exists()]
            importing = {n: pool.submit(self._import, plan, tools, n, archives) for n in lacking}
            self._wait(plan, list(FIRST), begin)
            if plan.options.volcano:
                furnish.resources(plan, tools)
            for name in plan.components:
                if not name.startswith("volcano"):
                    self._spawn(plan, tools, name)
            furnish.people(plan)
            if plan.options.volcano:
                self._until(lambda: furnish.established(plan))
                for name in plan.components:
                    self._spawn(plan, tools, name)
            if plan.options.fake_nodes:
                furnish.fake_nodes(plan)
            self._wait(plan, [name for name in plan.components if name not in FIRST], begin)
            for node in plan.nodes:
                furnish.gpus(plan, node)
            self._until(lambda: furnish.settled(plan))
            if plan.options.volcano:
                self._until(lambda: furnish.queues(plan))
            for n, done in importing.items():
                done.result()
                self._imported(plan, n).touch()
            for node in plan.nodes:  # it may have been silent while it had so much to do
                self._until(lambda node=node: self.check(node))  # type: ignore[misc]

    def _claim(self) -> None:
        """Only an empty directory, or one that is a bed already, is written to."""
        os.makedirs(self.dir, exist_ok=True)
        if not self.exists and set(os.listdir(self.dir)) - {"lock"}:
            raise UsageError(
                f"{self.dir} is neither empty nor a test bed.", hint="Name another with --dir."
            )

    def _planned(self, options: Options) -> Plan:
        if self.exists:
            plan = self.plan
            if any(p.is_alive for p in self.processes.values()):
                if plan.options != options:
                    raise UsageError(
                        f"The test bed in {self.dir} runs with other options.",
                        hint="Take it down first, or name another directory with --dir.",
                    )
                return plan
            self._stop(plan)
        self._clean()
        shutil.rmtree(f"{self.dir}/logs", ignore_errors=True)
        plan = plans.make(self.dir, options, network.is_free)
        self._write(plan, {})
        return plan

    def _configure(self, plan: Plan, tools: Programs) -> None:
        for folder in ("logs", "conf", "data", "shared"):
            os.makedirs(f"{self.dir}/{folder}", exist_ok=True)
        os.chmod(plan.shared, 0o1777)
        if not os.path.exists(plan.conf("ca.crt")):
            words = {
                "dir": f"{self.dir}/conf",
                "addresses": f"{plan.control},{plan.first_service},127.0.0.1,kubernetes,"
                "kubernetes.default,kubernetes.default.svc,kubernetes.default.svc.cluster.local",
                "clients": ",".join((*users.CLIENTS, "accounts")),
            }
            subprocess.run(
                [tools.cluster, "certificates", *(f"--{k}={v}" for k, v in words.items())],
                check=True,
            )
        for file, text in users.kubeconfigs(plan).items():
            Path(self.dir, file).write_text(text)
        for file, text in commands.files(plan, tools, machine.snapshotter(plan)).items():
            path = Path(plan.conf(file))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for component in plan.components:
            os.makedirs(plan.data(component), exist_ok=True)

    def _stop(self, plan: Plan) -> None:
        cgroups.kill(plan)
        cgroups.remove(plan)
        network.remove(plan)
        self._write(plan, {})

    def _clean(self) -> None:
        for folder in ("conf", "data", "shared"):
            shutil.rmtree(f"{self.dir}/{folder}", ignore_errors=True)
        for file in Path(self.dir).glob("*kubeconfig"):
            file.unlink()

    # ---- one component --------------------------------------------------------------------------

    def kill(self, component: str, number: int = signal.SIGKILL) -> None:
        """Sends the signal, and waits until it is gone if that is what the signal is for."""
        self._known(component)
        with self._locked():
            found = self.processes.get(component)
            if found is None or not found.is_alive:
                raise UsageError(
                    f"{component} is not running.", hint=f"`start {component}` starts it."
                )
            found.signal(number)
            if number in ENDING and not found.wait(process.GRACE * 6):
                raise EngineError(f"{component} did not end.", hint="Kill it with --signal KILL.")

    def crash(self, node: str) -> None:
        """As if its power failed: kubelet, containerd and all pods of it at once. `start` of its
        containerd and then of itself is its boot."""
        self._known(node)
        if node not in self.plan.nodes:
            raise UsageError(f"{node} is not a node.", hint="Nodes are node1, node2 …")
        with self._locked():
            cgroups.kill(self.plan, node)

    def start(self, component: str) -> None:
        """With the data it had. Does nothing when it runs."""
        self._known(component)
        with self._locked():
            plan = self.plan
            if not os.path.isdir(plan.data(component)):
                raise UsageError(
                    f"The test bed in {self.dir} is down.", hint="Bring it `up` first."
                )
            self._spawn(plan, programs.get(self.tell), component)
            missing = [name for name in self._needs(component) if not self.is_alive(name)]
            if missing:
                self.tell(f"{component} has started; it will be ready when {missing[0]} runs")
            else:
                # Those that need it come back too, or nobody could use it yet.
                back = [n for n in plan.components if component in self._needs(n)]
                alive = [n for n in back if self.is_alive(n)]
                self._wait(plan, [component, *alive], time.monotonic())

    def _needs(self, component: str) -> list[str]:
        n = plans.number(component)
        kind = component.removesuffix(str(n)) if n else component
        return [f"{name}{n}" if name == "containerd" else name for name in NEEDS.get(kind, ())]

    def _known(self, component: str) -> None:
        if component not in self.plan.components:
            names = ", ".join(self.plan.components)
            raise UsageError(f"There is no component {component!r}.", hint=f"There are {names}.")

    def _spawn(self, plan: Plan, tools: Programs, component: str) -> None:
        """Does nothing when it runs."""
        if self.is_alive(component):
            return
        n = plans.number(component)
        if n:
            around = machine.inside(plan, f"node{n}", self._holder(plan, n))
        else:
            around = [*cgroups.joining(plan, "control"), *network.enter(plan, "control")]
        started = process.spawn(
            [*around, *commands.command(plan, tools, component)],
            log=plan.log(component),
            cwd=plan.data(component),
            env={
                **machine.environment(tools),
                "TMPDIR": plan.data(component),
                "DEBUG_SOCKET_DIR": plan.data(component),  # Volcano's, which would be in /tmp
            },
        )
        self._write(plan, {**self.processes, component: started})

    def _holder(self, plan: Plan, n: int) -> Process:
        name = f"node{n}-mounts"
        if not self.is_alive(name):
            self._write(plan, {**self.processes, name: machine.hold(plan, f"node{n}")})
        return self.processes[name]

    def _wait(self, plan: Plan, components: list[str], begin: float) -> None:
        missing = dict.fromkeys(components, "")
        while missing:
            for component in list(missing):
                if not self.is_alive(component):
                    raise self._failure(plan, component, "ended while it was starting")
                try:
                    self.check(component)
                except NotYet as why:
                    missing[component] = str(why)
                else:
                    del missing[component]
                    self.tell(f"{component}: ready after {time.monotonic() - begin:.0f} s")
            if missing and time.monotonic() - begin > UP_SECONDS:
                component, problem = next(iter(missing.items()))
                what = f"was not ready in {UP_SECONDS:.0f} s: {problem}"
                raise self._failure(plan, component, what)
            if missing:
                time.sleep(0.2)

    def _until(self, done: Callable[[], None]) -> None:
        """What has just come up may take long for its first answers."""
        deadline = time.monotonic() + UP_SECONDS
        while True:
            try:
                return done()
            except NotYet:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _failure(self, plan: Plan, component: str, what: str) -> BedFailed:
        lines = Path(plan.log(component)).read_text(errors="replace").splitlines()
        telling = [s for s in lines if s.startswith(("E", "F", "panic")) or "rror:" in s]
        said = "\n  ".join((telling or lines)[-5:])
        return BedFailed(f"{component} {what}. It said:\n  {said}")

    # ---- for whoever uses it ---------------------------------------------------------------------

    def kubectl(self, *words: str, user: str = "") -> "subprocess.CompletedProcess[str]":
        """As the administrator, or as one of the users."""
        config = self.kubeconfig_of(user) if user else self.kubeconfig
        return subprocess.run(
            [programs.get(self.tell).cluster, "kubectl", f"--kubeconfig={config}", *words],
            capture_output=True,
            text=True,
            check=False,
        )

    def import_image(self, source: str | os.PathLike[str], name: str, at: str = "/") -> None:
        """For all nodes: an archive as it is, or the Python image with a directory laid over it,
        its files under `at`. `imagePullPolicy: Never`, or the kubelet asks a registry."""
        plan, tools, path = self.plan, programs.get(self.tell), Path(source)
        with tempfile.TemporaryDirectory(prefix="image-", dir=self.dir) as scratch:
            if path.is_dir():
                layers = [images.python(self.tell), images.pack(path, Path(scratch), at)]
                path = Path(scratch, "image.tar")
                images.write(path, name, layers, ["/bin/bash"])
            for n in plan.numbers:
                self._import(plan, tools, n, [path])

    def _imported(self, plan: Plan, n: int) -> Path:
        return Path(plan.data(f"containerd{n}"), "imported")

    def _import(self, plan: Plan, tools: Programs, n: int, archives: list[Path]) -> None:
        self._until(lambda: self.check(f"containerd{n}"))
        for archive in archives:
            machine.import_archive(plan, f"node{n}", self._holder(plan, n), tools, archive)
