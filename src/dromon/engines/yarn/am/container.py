"""A container as its agent's place: code laid out, logs where YARN collects them, results home.

The agent's record is a directory of the container and goes with it, so whatever must outlive the
container is brought to the job's record on HDFS: exit records, metrics, results of functions,
checkpoints where the nodes share no directory, outputs at the end. HDFS is asked in a thread; the
agent goes on meanwhile.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import tarfile
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent.frames import Message
from dromon.agent.place import Place
from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.engines.yarn.am import checkpoints, volumes
from dromon.engines.yarn.am.carrier import Carrier
from dromon.errors import DromonError
from dromon.hadoop.webhdfs import WebHdfs

# Files of a run that the record on HDFS keeps, beside those of `outputs:`.
KEPT = ("exit.json", "metrics.jsonl", "result", "error", "agent.err")
PIECE = 256 * 1024  # of a log, in one message
READABLE = re.compile(r"[a-z0-9-]+\.[0-9]+\.log(\.index)?")


class Container(Place):
    def __init__(
        self,
        request: Mapping[str, Any],
        member: str,
        record: Record,
        log_dir: str,
        hdfs: WebHdfs,
    ) -> None:
        self._request = request
        self._record = record
        self._log_dir = log_dir
        self._hdfs = hdfs
        self._home = str(request["cluster"]["record"])
        self.is_over = False  # nothing is told any more
        self._wake: Callable[[], None] = lambda: None
        self._words: list[Message] = []
        self._laid_out: dict[int, str | None] = {}  # run -> None while under way, else trouble
        self._home_with: dict[int, bool] = {}
        self._kept: dict[tuple[Any, ...], Message] = {}  # attempt and paths -> what was told
        self._lock = threading.Lock()
        self._seeking = False
        # Absolute: the agent goes to its member's directory when it starts one.
        self._root = os.path.dirname(record.root)
        self._carrier = (
            Carrier(self._root, member, self._say) if request["framework"] == "mpi" else None
        )
        shared = request["checkpoints"]
        self._checkpoints = None
        if not shared:
            place = f"{self._home}/checkpoints"
            self._checkpoints = checkpoints.Checkpoints(record.checkpoints, place, hdfs)
        self._member = member
        self._events: checkpoints.Checkpoints | None = None  # for TensorBoard, of this attempt

    # ---- what the agent asks --------------------------------------------------------------------

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def lay_out(self, plan: AgentPlan) -> bool:
        if plan.run not in self._laid_out:
            self._laid_out[plan.run] = None
            self._in_thread(lambda: self._lay_out(plan))
        trouble = self._laid_out[plan.run]
        if trouble:
            raise OSError(trouble)
        return trouble is not None

    def bring_home(self, plan: AgentPlan) -> bool:
        if plan.run not in self._home_with:
            self._home_with[plan.run] = False
            self._in_thread(lambda: self._bring_home(plan))
        return self._home_with[plan.run] and not self.is_over

    def seek(self) -> None:
        with self._lock:
            if self._seeking:
                return
            self._seeking = True
        self._in_thread(self._seek)

    def hear(self, message: Message) -> None:
        op = message.get("op")
        if op == "read":
            self._say(self._read(message))
        elif op == "keep":
            attempt, paths = int(message["attempt"]), message.get("paths")
            if paths is None:
                found = _files(self._record.work(attempt), self._request["outputs"])
                self._say({"op": "kept", "attempt": attempt, "found": found})
                return
            known = self._kept.get((attempt, *paths))
            if known:
                self._say(known)
            elif known is None:  # else a master before this one asked, and it is under way
                self._kept[(attempt, *paths)] = {}
                self._in_thread(lambda: self._keep(attempt, paths))
        elif op == "carry" and self._carrier is not None:
            self._carrier.hear(message)

    def words(self) -> list[Message]:
        with self._lock:
            said, self._words = self._words, []
        return said

    # ---- parts ----------------------------------------------------------------------------------

    def _in_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _say(self, message: Message) -> None:
        with self._lock:
            self._words.append(message)
        self._wake()

    def _lay_out(self, plan: AgentPlan) -> None:
        trouble = ""
        try:
            self._lay_out_code(self._record.work(plan.attempt))
            self._link_logs(plan)
            volumes.lay_out(self._request["volumes"], self._root, self._hdfs)
            if self._carrier is not None:
                self._carrier.open(self._record.world(plan.attempt))
            if self._checkpoints is not None:
                self._checkpoints.fetch()
                self._checkpoints.keep_up()
            if self._request["tensorboard"]:
                here = os.path.join(self._record.work(plan.attempt), self._request["tensorboard"])
                place = f"{self._home}/tensorboard/{self._member}"
                self._events = checkpoints.Checkpoints(here, place, self._hdfs, settled=0.0)
                self._events.keep_up()
        except (OSError, DromonError, tarfile.TarError, EOFError, zlib.error) as error:
            trouble = str(error) or type(error).__name__
        self._laid_out[plan.run] = trouble
        self._wake()

    def _lay_out_code(self, work: str) -> None:
        """A fresh copy for every attempt; what the last one wrote is gone, as on any engine."""
        if os.path.isdir(work):
            return
        for name in os.listdir(self._record.root):
            if name.startswith("work-"):
                shutil.rmtree(self._record.path(name), ignore_errors=True)
        partial = f"{work}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(partial)
        code = os.path.join(self._root, "code.tar.gz")
        if os.path.exists(code):
            with tarfile.open(code) as archive:
                # The user's own code, packed by us: links and all.
                trusted = getattr(tarfile, "fully_trusted_filter", None)
                archive.extractall(partial, **({"filter": trusted} if trusted else {}))
        os.rename(partial, work)

    def _link_logs(self, plan: AgentPlan) -> None:
        """YARN collects the files of one directory; the run's log is written there, readable by
        the NodeManager, which may be another user of the container's group."""
        run = self._record.run(plan.member, plan.run)
        os.makedirs(run, exist_ok=True)
        for name in ("log", "log.index"):
            target = os.path.join(self._log_dir, f"{plan.member}.{plan.run}.{name}")
            with open(target, "ab") as file:
                os.fchmod(file.fileno(), 0o640)  # whatever the umask is
            if not os.path.lexists(os.path.join(run, name)):
                os.symlink(target, os.path.join(run, name))

    def _bring_home(self, plan: AgentPlan) -> None:
        """As far as HDFS takes it: the end of a run is told all the same."""
        directory = self._record.run(plan.member, plan.run)
        names = KEPT if self._request["logs_aggregated"] else (*KEPT, "log", "log.index")
        try:
            for name in names:
                path = os.path.join(directory, name)
                if os.path.exists(path):
                    with open(path, "rb") as file:
                        self._hdfs.write(f"{self._home}/{plan.member}.{plan.run}/{name}", file)
            for kept in (self._checkpoints, self._events):
                if kept is not None:
                    kept.bring_home()
        except (OSError, DromonError) as error:
            self._complain(plan, f"could not be brought to HDFS: {error}\n")
        self._home_with[plan.run] = True
        self._wake()

    def _keep(self, attempt: int, paths: list[str]) -> None:
        """These of the last attempt, each file on its own: one that fails costs no other."""
        work = self._record.work(attempt)
        kept: list[dict[str, Any]] = []
        for path in paths:
            full = os.path.join(work, path)
            try:
                with open(full, "rb") as file:
                    self._hdfs.write(f"{self._home}/outputs/{path}", file)
                kept.append({"path": path, "size": os.path.getsize(full)})
            except (OSError, DromonError) as error:
                kept.append({"path": path, "kept": False, "why": str(error)})
        answer: Message = {"op": "kept", "attempt": attempt, "outputs": kept}
        self._kept[(attempt, *paths)] = answer
        self._say(answer)

    def _read(self, message: Message) -> Message:
        """A piece of a log while it grows, for whoever follows it."""
        name, offset = str(message["name"]), int(message["offset"])
        answer: Message = {"op": "data", "id": message["id"], "offset": offset}
        try:
            if not READABLE.fullmatch(name):
                raise FileNotFoundError(name)
            with open(os.path.join(self._log_dir, name), "rb") as file:
                file.seek(offset)
                data = file.read(min(PIECE, int(message.get("limit", PIECE))))
        except OSError:
            return {**answer, "data": "", "missing": True}
        return {**answer, "data": base64.b64encode(data).decode()}

    def _seek(self) -> None:
        """A new attempt of the master writes where it is to the job's record."""
        try:
            found = self._hdfs.read(f"{self._home}/coordinator.json")
            epoch = int(json.loads(found)["epoch"])
            with open(self._record.coordinator, encoding="utf-8") as file:
                known = int(json.load(file)["epoch"])
            if epoch > known:
                draft = f"{self._record.coordinator}.new"
                with open(draft, "wb") as out:
                    out.write(found)
                os.replace(draft, self._record.coordinator)
        except (OSError, DromonError, ValueError, KeyError, TypeError):
            pass  # asked again as long as nobody answers
        finally:
            with self._lock:
                self._seeking = False

    def _complain(self, plan: AgentPlan, text: str) -> None:
        try:
            path = os.path.join(self._log_dir, f"{plan.member}.{plan.run}.agent.err")
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError:
            pass


def _files(work: str, asked: list[str]) -> list[str]:
    """Every plain file under the asked paths, relative to the working directory."""
    found: list[str] = []
    for path in asked:
        full = os.path.join(work, path)
        if os.path.isfile(full):
            found.append(path)
        for folder, _, names in sorted(os.walk(full)):
            each = (os.path.join(folder, name) for name in sorted(names))
            found += [os.path.relpath(f, work) for f in each if os.path.isfile(f)]
    return found
