"""The local engine, as the Engine protocol wants it: questions to the daemon, logs from disk.

Logs are read from the record by whoever wants them, so a follower costs the daemon nothing and
goes on while the daemon is away.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    Progress,
    Queue,
    Submission,
    Waiting,
)  # fmt: skip
from dromon.engines.home import Home
from dromon.engines.local.client import Client


class LocalEngine:
    name = "local"

    def __init__(self, root: str | None = None, *, fake_gpus: int = 0, alone: bool = False) -> None:
        self.home = Home(root)
        self.client = Client(self.home, fake_gpus, alone)

    @property
    def blobs(self) -> str:
        return self.home.blobs

    def about(self) -> Mapping[str, Any]:
        from dromon import __version__

        nodes, queues = self.nodes(), [queue.name for queue in self.queues()]
        notes = [note for node in nodes for note in node.notes]
        return {"version": __version__, "nodes": len(nodes), "queues": queues, "notes": notes}

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

    def start(
        self, request: Mapping[str, Any], progress: Progress | None = None
    ) -> Mapping[str, Any]:
        """The daemon does it all, so there is no progress to tell here; `why` tells it."""
        return self.client.ask("run", request=request)

    def start_many(
        self, common: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]
    ) -> Sequence[JobRef]:
        found = self.client.ask("submit_many", common=common, requests=requests)
        return [str(id) for id, _, _ in found["accepted"]]

    def rerun(
        self,
        ref: str,
        *,
        overrides: Sequence[str],
        token: str,
        environ: Mapping[str, str],
        supplied: Mapping[str, str],
        progress: Progress | None = None,
    ) -> Mapping[str, Any]:
        return self.client.ask(
            "rerun", ref=ref, overrides=list(overrides), token=token, environ=dict(environ),
            supplied=dict(supplied),
        )  # fmt: skip

    def plan(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        found: dict[str, Any] = self.client.ask("plan", request=request)["plan"]
        return found

    def find(self, ref: str) -> JobRef:
        if "/" in ref:  # another user's, as `ps --all-users` shows it
            return ref
        return str(self.client.ask("find", ref=ref)["id"])

    def show(self, ref: str) -> Mapping[str, Any]:
        return self.client.ask("show", ref=ref)

    def status(self, ref: JobRef) -> JobStatus:
        if "/" in ref:
            from dromon.engines.local.shared import neighbours

            return neighbours.status(ref)
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
        if "/" in ref:
            from dromon.engines.local.shared import neighbours

            return neighbours.why(ref)
        found = self.client.ask("why", ref=ref)["waiting"]
        if found is None:
            return None
        lists = {key: tuple(found[key]) for key in ("holders", "unblock")}
        return Waiting(**{**found, **lists})

    def stop(self, ref: JobRef, grace: float | None = None) -> None:
        self.stop_ref(ref, grace)

    def stop_ref(self, ref: str, grace: float | None = None) -> Mapping[str, Any]:
        if "/" in ref:
            from dromon.engines.local.shared import neighbours

            return neighbours.stop(ref, grace)
        return self.client.ask("stop", ref=ref, grace=grace)

    def logs(self, ref: JobRef, follow: bool) -> Iterator[LogLine]:
        return self.lines(ref, follow=follow)

    def lines(
        self,
        ref: str,
        *,
        follow: bool,
        ranks: frozenset[int] | None = None,
        members: frozenset[str] | None = None,
        since: float | None = None,
        tail: int | None = None,
        every_run: bool = True,
    ) -> Iterator[LogLine]:
        from dromon.engines.local.logs import lines

        if "/" in ref:
            from dromon.engines.local.shared import neighbours

            return neighbours.lines(ref, follow=follow, tail=tail)
        return lines(
            self.client, self.find(ref), follow=follow, ranks=ranks, members=members, since=since,
            tail=tail, every_run=every_run,
        )  # fmt: skip

    def nodes(self) -> Sequence[Node]:
        found = self.client.ask("nodes")["nodes"]
        return [Node(**{**n, "gpus": tuple(n["gpus"]), "notes": tuple(n["notes"])}) for n in found]

    def queues(self) -> Sequence[Queue]:
        return [Queue(**q) for q in self.client.ask("queues")["queues"]]

    # ---- what only this machine's scheduler has -------------------------------------------------

    def queue_views(self) -> Mapping[str, Any]:
        """{"views": the tree with all that is known, the root first, "notes": sentences}."""
        return self.client.ask("queues")

    def change_queue(
        self, action: str, name: str, settings: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """`action`: set, drain, open, rm. {"version", "notes"}."""
        if action == "set":
            return self.client.ask("queue_set", queue=name, settings=[*settings])
        if action == "rm":
            return self.client.ask("queue_remove", queue=name)
        return self.client.ask("queue_open", queue=name, open=action == "open")

    def queue_history(self, limit: int) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.client.ask("queue_history", limit=limit)[
            "versions"
        ]
        return found

    def drain_node(self, name: str | None, drain: bool) -> Mapping[str, Any]:
        return self.client.ask("node_drain", node=name, drain=drain)

    def would_preempt(self, ref: str) -> Sequence[Mapping[str, Any]]:
        """Whom a waiting job would send away, if it could: {"job", "user", "queue", "lost"}."""
        found: Sequence[Mapping[str, Any]] = self.client.ask("would_preempt", ref=ref)["victims"]
        return found

    def report(self, start: float) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.client.ask("report", start=start)["report"]
        return found

    def history(self, since: float = 0.0) -> Sequence[Mapping[str, Any]]:
        """Every job submitted since then, with what it asked for and how long it ran."""
        found: Sequence[Mapping[str, Any]] = self.client.ask("history", since=since)["jobs"]
        return found

    def run_file(self, ref: str, member: str, run: int, name: str) -> str | None:
        import os

        from dromon.agent.record import Record

        path = os.path.join(Record(self.record(ref)).run(member, run), name)
        return path if os.path.exists(path) else None

    def tend(self) -> Sequence[str]:
        return ()

    def remove(self, refs: Sequence[str]) -> Sequence[JobRef]:
        return [str(id) for id in self.client.ask("remove", refs=[*refs])["removed"]]

    def collect(self, older_than: float | None = None, dry_run: bool = False) -> Mapping[str, Any]:
        return self.client.ask("gc", older_than=older_than, dry_run=dry_run)

    def record(self, id: str) -> str:
        """Where the job's record lies."""
        return self.home.record(id)

    # ---- a machine of many users ----------------------------------------------------------------

    def share(
        self, action: str, *, fake_gpus: int = 0, foreground: bool = False
    ) -> Mapping[str, Any]:
        """share, unshare, install, uninstall; how the arbiter is then."""
        from dromon.engines.local.shared import control

        return control.act(action, fake_gpus, foreground)

    def everyone(self, limit: int | None = None) -> Sequence[JobStatus]:
        """The jobs of all users of this machine, as its arbiter knows them."""
        from dromon.engines.local.shared import neighbours

        found = neighbours.jobs()
        return found if limit is None else found[-limit:]

    def audit(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """Who did what on this shared machine, oldest first."""
        from dromon.engines.local.shared import neighbours

        return neighbours.audit(limit)


def status(data: dict[str, Any]) -> JobStatus:
    members = tuple(MemberStatus(**{**m, "gpus": tuple(m["gpus"])}) for m in data["members"])
    return JobStatus(**{**data, "members": members})
