"""A pod as its agent's place: runs of the record lie in the store where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any, BinaryIO

from dromon.agent.files import write_small
from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.agent.workplace import Workplace
from dromon.engines.kubernetes.pod import member, objects
from dromon.engines.kubernetes.pod.places import CODE, Places


class Pod(Workplace):
    def __init__(
        self, request: Mapping[str, Any], name: str, record: Record, places: Places
    ) -> None:
        code, digest = places.blob(request, CODE), places.digest(request, CODE)
        super().__init__(request, name, record, places.run, code, digest)
        self._home = Record(places.home(request))
        self._has_store = bool(request["store"])
        self._places = places
        self.is_orphan = False

    def log_file(self, name: str) -> str:
        who, run, end = name.split(".", 2)
        return self._record.path(f"{who}.{run}", end)

    def prepare(self, plan: AgentPlan) -> None:
        """A run's directory is the store's: its log and its exit record are safe at once. What is
        fetched is there before the first run."""
        run = self._record.run(plan.member, plan.run)
        if self._has_store and not os.path.lexists(run):
            there = self._home.run(plan.member, plan.run)
            os.makedirs(there, mode=0o755, exist_ok=True)
            os.symlink(there, run)
        member.unpack(self._request, self._places)
        code = self._places.blob(self._request, CODE)
        if CODE in self._request["artifacts"] and not os.path.exists(code):
            raise FileNotFoundError(f"the code is not in the store: {code}")
        role = self._request["roles"][plan.member.rpartition("-")[0]]
        environ = {**role["env"], **self._places.supplied(self._request)}
        for name, volume in self._request["volumes"].items():
            done = f"{self._places.run}/fetched-{name}"
            if "fetch" in volume and not os.path.exists(done):
                objects.fetch(volume["fetch"], volume["path"], environ)
                write_small(done, b"")

    def orphaned(self) -> None:
        self.is_orphan = True

    def put_output(self, path: str, file: BinaryIO) -> None:
        if not self._has_store:
            raise OSError("there is no store to keep it in")
        there = self._home.path("outputs", path)
        os.makedirs(os.path.dirname(there), exist_ok=True)
        with open(f"{there}.partial", "wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
        os.replace(f"{there}.partial", there)
