"""Where things lie in a pod, and what it is told through its environment. Paths only."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dromon.agent.files import read_small, write_small

LIGHT = "/dromon/light/light.pyz"
LINE_PORT = 8470  # agents to their coordinator
PAGE_PORT = 8471  # the coordinator's page
CODE, FUNCTION, ENVIRONMENT = "code.tar.gz", "function.tar.gz", "environment.tar.gz"


@dataclass(frozen=True)
class Places:
    """The pod's directories; another root serves for trying it without a pod."""

    root: str = "/dromon"
    last_words: str = "/dev/termination-log"
    line_port: int = LINE_PORT
    page_port: int = PAGE_PORT
    coordinator_host: str = ""  # else Volcano's name for the first pod

    @property
    def request(self) -> str:
        return f"{self.root}/request/request.json"

    @property
    def run(self) -> str:
        """The pod's own, empty when it starts."""
        return f"{self.root}/run"

    @property
    def record(self) -> str:
        return f"{self.run}/record"

    @property
    def environment(self) -> str:
        return f"{self.run}/environment"

    @property
    def programs(self) -> str:
        return f"{self.run}/bin"

    def home(self, request: Mapping[str, Any]) -> str:
        """What outlives the pod, where the cluster has a store; else what lies beside it."""
        store, job = request["store"], str(request["gang"]["job"])
        return f"{store['path']}/jobs/{job}" if store else f"{self.run}/home"

    def blob(self, request: Mapping[str, Any], file: str) -> str:
        """An archive of the job's: put together from what the API delivers, or in the store."""
        joined = f"{self.run}/{file}"
        artifact = request["artifacts"].get(file)
        if artifact is None or request["blobs"] or not request["store"] or os.path.exists(joined):
            return joined
        return f"{request['store']['path']}/blobs/{artifact['blob']}"

    def digest(self, request: Mapping[str, Any], file: str) -> str:
        """Of that archive's content, which blobs are named by; "" where the job ships none."""
        artifact = request["artifacts"].get(file)
        return str(artifact["blob"]).partition(".")[0] if artifact else ""

    def coordinator(self, request: Mapping[str, Any], member: str) -> str:
        """Where an agent finds it."""
        host = "127.0.0.1" if member == first_member(request) else self.first_host(request)
        return f"tcp:{host}:{self.line_port}"

    def first_host(self, request: Mapping[str, Any]) -> str:
        job = request["gang"]["job"]
        return self.coordinator_host or f"{job}-{first_member(request)}.{job}"

    def key(self, request: Mapping[str, Any]) -> bytes:
        """The job's secret: our client's, or hashed from the one Volcano made for this job; a pod
        that is alone and has none makes it up."""
        for name in ("secret/key", "ssh/id_rsa"):
            try:
                found = read_small(f"{self.root}/{name}").strip()
            except OSError:
                continue
            return found if name == "secret/key" else hashlib.sha256(found).hexdigest().encode()
        if request["volcano"]:
            raise OSError(f"there is no key in {self.root}/secret")
        made = f"{self.run}/key"
        if not os.path.exists(made):
            write_small(made, os.urandom(32).hex().encode())
        return read_small(made)

    def supplied(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Values of secrets: in one file of our client's, or each in one of its name."""
        if request["secret"]:
            folder = str(request["secret"]["path"])
            return {n: read_small(f"{folder}/{n}").decode() for n in request["supplied"]}
        try:
            return dict(json.loads(read_small(f"{self.root}/secret/supplied.json")))
        except FileNotFoundError:
            return {}

    def reach(self) -> dict[str, str]:
        """What is shown to the object store that the job's archives are fetched from."""
        return dict(json.loads(read_small(f"{self.root}/secret/blobs.json")))

    def join_parts(self) -> None:
        """Where there is no store, archives come in parts through the API server: NAME.000, …"""
        try:
            names = sorted(n for n in os.listdir(f"{self.root}/code") if not n.startswith("."))
        except FileNotFoundError:
            return
        for file in sorted({name.rpartition(".")[0] for name in names}):
            with open(f"{self.run}/{file}.partial", "wb") as out:
                for name in names:
                    if name.rpartition(".")[0] == file:
                        with open(f"{self.root}/code/{name}", "rb") as part:
                            out.write(part.read())
            os.replace(f"{self.run}/{file}.partial", f"{self.run}/{file}")


def first_member(request: Mapping[str, Any]) -> str:
    """The one whose pod holds the coordinator."""
    return f"{next(iter(request['roles']))}-0"
