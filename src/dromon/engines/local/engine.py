"""The local engine, as the Engine protocol wants it: questions to the daemon, logs from disk.

Logs are read from the record by whoever wants them, so a follower costs the daemon nothing and
goes on while the daemon is away.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dromon.engines.base import (
    Capabilities,
    Filter,
    JobRef,
    JobStatus,
    Launch,
    LogLine,
    MemberStatus,
    Node,
    Queue,
    Submission,
    Waiting,
)  # fmt: skip
from dromon.engines.local.client import Client
from dromon.engines.local.home import Home


class LocalEngine:
    name = "local"

    def __init__(self, root: str | None = None, *, fake_gpus: int = 0) -> None:
        self.home = Home(root)
        self.client = Client(self.home, fake_gpus)

    def probe(self) -> Capabilities:
        found = self.client.ask("probe")["capabilities"]
        return Capabilities(**{**found, "queues": tuple(found["queues"])})

    def compile(self, launch: Launch) -> Submission:
        from dromon.engines.local.compile import compile_launch

        return compile_launch(launch, self.home.record(launch.id))

    def submit(self, submission: Submission) -> JobRef:
        found = self.client.ask(
            "submit", id=submission.id, request=submission.request,
            supplied=dict(submission.supplied),
        )  # fmt: skip
        return str(found["id"])

    def status(self, ref: JobRef) -> JobStatus:
        return status(self.client.ask("status", ref=ref)["status"])

    def list(self, where: Filter) -> Sequence[JobStatus]:
        found = self.client.ask(
            "list", active=where.active_only, limit=where.limit, name=where.name
        )["jobs"]
        return [status(each) for each in found]

    def watch(self, ref: JobRef) -> Iterator[JobStatus]:
        """Ends with the terminal status. A daemon that goes away is found again."""
        from dromon.engines.local.logs import Watch

        with Watch(self.client, ref) as watch:
            while True:
                now = watch.status
                yield status(now)
                if now["ended"] is not None:
                    return
                while watch.status == now:
                    watch.wait(None)

    def wait(self, ref: JobRef, timeout: float | None = None) -> JobStatus:
        """The terminal status, or TimeoutError."""
        import time

        from dromon.engines.local.logs import Watch

        deadline = None if timeout is None else time.monotonic() + timeout
        with Watch(self.client, ref) as watch:
            while watch.status["ended"] is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"{ref} is still {watch.status['state']}")
                watch.wait(left)
        return status(watch.status)

    def why(self, ref: JobRef) -> Waiting | None:
        found = self.client.ask("why", ref=ref)["waiting"]
        if found is None:
            return None
        lists = {key: tuple(found[key]) for key in ("holders", "unblock")}
        return Waiting(**{**found, **lists})

    def stop(self, ref: JobRef, grace: float | None = None) -> None:
        self.client.ask("stop", ref=ref, grace=grace)

    def logs(self, ref: JobRef, follow: bool) -> Iterator[LogLine]:
        from dromon.engines.local.logs import lines

        id = str(self.client.ask("find", ref=ref)["id"])
        return lines(self.client, id, follow=follow)

    def nodes(self) -> Sequence[Node]:
        found = self.client.ask("nodes")["nodes"]
        return [Node(**{**n, "gpus": tuple(n["gpus"]), "notes": tuple(n["notes"])}) for n in found]

    def queues(self) -> Sequence[Queue]:
        return [Queue(**q) for q in self.client.ask("queues")["queues"]]

    def record(self, id: str) -> str:
        """Where the job's record lies."""
        return self.home.record(id)


def status(data: dict[str, Any]) -> JobStatus:
    members = tuple(MemberStatus(**{**m, "gpus": tuple(m["gpus"])}) for m in data["members"])
    return JobStatus(**{**data, "members": members})
