"""A container as its agent's place: logs where YARN collects them, everything else home to HDFS.

What must outlive the container is brought to the job's record on HDFS: exit records, metrics,
results of functions, checkpoints where the nodes share no directory, outputs at the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.agent.workplace import Workplace
from dromon.engines.yarn.am import checkpoints, volumes
from dromon.errors import DromonError
from dromon.hadoop.webhdfs import WebHdfs

# Files of a run that the record on HDFS keeps, beside those of `outputs:`.
KEPT = ("exit.json", "metrics.jsonl", "result", "error", "agent.err")


class Container(Workplace):
    def __init__(
        self,
        request: Mapping[str, Any],
        member: str,
        record: Record,
        log_dir: str,
        hdfs: WebHdfs,
    ) -> None:
        # Absolute: the agent goes to its member's directory when it starts one.
        self._root = os.path.dirname(record.root)
        code = os.path.join(self._root, "code.tar.gz")
        super().__init__(request, member, record, self._root, code)
        self._log_dir = log_dir
        self._hdfs = hdfs
        self._home = str(request["cluster"]["record"])
        self._seeking = False
        shared = request["checkpoints"]
        self._checkpoints = None
        if not shared:
            place = f"{self._home}/checkpoints"
            self._checkpoints = checkpoints.Checkpoints(record.checkpoints, place, hdfs)
        self._events: checkpoints.Checkpoints | None = None  # for TensorBoard, of this attempt

    def log_file(self, name: str) -> str:
        return os.path.join(self._log_dir, name)

    def prepare(self, plan: AgentPlan) -> None:
        self._link_logs(plan)
        volumes.lay_out(self._request["volumes"], self._root, self._hdfs)
        if self._checkpoints is not None:
            self._checkpoints.fetch()
            self._checkpoints.keep_up()
        if self._request["tensorboard"]:
            here = os.path.join(self._record.work(plan.attempt), self._request["tensorboard"])
            place = f"{self._home}/tensorboard/{self._member}"
            self._events = checkpoints.Checkpoints(here, place, self._hdfs, settled=0.0)
            self._events.keep_up()

    def _link_logs(self, plan: AgentPlan) -> None:
        """YARN collects the files of one directory; the run's log is written there, readable by
        the NodeManager, which may be another user of the container's group."""
        run = self._record.run(plan.member, plan.run)
        os.makedirs(run, exist_ok=True)
        for name in ("log", "log.index"):
            target = self.log_file(f"{plan.member}.{plan.run}.{name}")
            with open(target, "ab") as file:
                os.fchmod(file.fileno(), 0o640)  # whatever the umask is
            if not os.path.lexists(os.path.join(run, name)):
                os.symlink(target, os.path.join(run, name))

    def carry_home(self, plan: AgentPlan) -> None:
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

    def put_output(self, path: str, file: BinaryIO) -> None:
        self._hdfs.write(f"{self._home}/outputs/{path}", file)

    # ---- a master that has moved ----------------------------------------------------------------

    def seek(self) -> None:
        with self._lock:
            if self._seeking:
                return
            self._seeking = True
        self._in_thread(self._seek)

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
            path = self.log_file(f"{plan.member}.{plan.run}.agent.err")
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError:
            pass
