"""Where the parts of a job's record lie. Paths only: nothing is opened here.

The record is the same on every engine; only the store it lies in differs. What the client keeps
is a cache of it.

    jobs/<id>/
      request.json           the submission, exactly as it was accepted (no secrets in it)
      coordinator.json       {"address": …, "epoch": n}: where agents find their coordinator;
                             no epoch where the address is that of each one in turn
      key                    the per-job secret, 0600, gone when the job has ended
      status.json            what the coordinator told last, where the engine keeps it here
      config.json            the user's `config:`, if there is any
      checkpoints/           $DROMON_CHECKPOINT_DIR, survives restarts and preemption
      world/<attempt>/       what the framework needs beside variables (host files)
      exits                  the exit records of members of one machine, a line each; elsewhere
                             each has its own file
      work-<attempt>/        the code snapshot, unpacked: the members' working directory
      <member>.<run>/        worker-0.1, worker-0.2, …
        claim                a link made by the agent that may run this run: at most one does
        log, log.index       captured output (see `logfile`)
        exit.json            the exit record, written whole by rename, where it is not in `exits`
        metrics.jsonl        one JSON object a line, from context().report
        result, error        what a shipped function returned or raised
        saved                touched by context().checkpointed
        stop                 exists once the member was asked to stop
"""

from typing import Iterable, List, Tuple


def runs_among(names: Iterable[str]) -> List[Tuple[str, int]]:
    """Of the names in a record's directory, those of runs, as (member, run) in order."""
    parts = (name.split(".") for name in names)  # no member has a point in its name
    return sorted((each[0], int(each[1])) for each in parts if len(each) == 2 and each[1].isdigit())


class Record:
    """The record of one job at `root`."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, *parts: str) -> str:
        return "/".join((self.root, *parts))

    @property
    def request(self) -> str:
        return self.path("request.json")

    @property
    def coordinator(self) -> str:
        return self.path("coordinator.json")

    @property
    def status(self) -> str:
        return self.path("status.json")

    @property
    def key(self) -> str:
        return self.path("key")

    @property
    def config(self) -> str:
        return self.path("config.json")

    @property
    def checkpoints(self) -> str:
        return self.path("checkpoints")

    @property
    def exits(self) -> str:
        return self.path("exits")

    def work(self, attempt: int) -> str:
        return f"{self.root}/work-{attempt}"

    def world(self, attempt: int) -> str:
        return self.path("world", str(attempt))

    def run(self, member: str, run: int) -> str:
        return f"{self.root}/{member}.{run}"

    def log(self, member: str, run: int) -> str:
        return f"{self.root}/{member}.{run}/log"

    def exit(self, member: str, run: int) -> str:
        return f"{self.root}/{member}.{run}/exit.json"
