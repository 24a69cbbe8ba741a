"""How a job stands, from what YARN says of its application and its master of its gang. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dromon.engines.base import JobStatus, MemberStatus
from dromon.engines.yarn.application import id_of
from dromon.engines.yarn.reports import Report
from dromon.lifecycle import states
from dromon.lifecycle.verdict import Verdict

Standing = Mapping[str, Any]  # what the master told last; see am.standing
# In YARN's words about a container that ended: its exit code, and what it wrote to stderr last.
CODE = re.compile(r"exitCode: (-?\d+)")
SAID = re.compile(r"bytes of master\.stderr ?:\n(\s*\S.*?)(?:\n\n|\Z)", re.DOTALL)
NOT_FOUND = "127"  # what a shell says of a command that is not there


def number_of(report: Report) -> int:
    return int(report.id.rpartition("_")[2])


def status(report: Report, standing: Standing | None) -> JobStatus:
    """`standing` is None where the master has not said anything yet, or nobody asked it."""
    id = id_of(report.tags)
    state, verdict, ended = _outcome(report, standing)
    told = standing or {}
    return JobStatus(
        id=id,
        number=number_of(report),
        name=id.rpartition("-")[0],
        state=state,
        engine="yarn",
        queue=_queue(report.queue),
        priority=report.priority,
        submitted=report.submitted,
        started=told.get("started"),
        ended=ended,
        attempt=int(told.get("attempt", 0)),
        user=report.user,
        verdict=verdict,
        members=tuple(_member(m) for m in told.get("members", ())),
        resources=_resources(report),
    )


def _resources(report: Report) -> dict[str, float]:
    if report.is_terminal:  # YARN's own figures come to nothing some time after the end
        return {"cpus": 0.0, "memory": 0.0}
    return {
        "cpus": float(report.used.vcores),
        "memory": float(report.used.memory * 2**20),
        **{kind: float(n) for kind, n in report.used.others.items() if n},
    }


def _queue(path: str) -> str:
    """As people write it: some versions of YARN put the root in front."""
    parts = path.split(".")
    return parts[1] if len(parts) == 2 and parts[0] == "root" else path


def _outcome(
    report: Report, standing: Standing | None
) -> tuple[str, Mapping[str, Any] | None, float | None]:
    told = standing or {}
    state = str(told.get("state", states.QUEUED))
    if not report.is_terminal:
        if states.is_terminal(state):  # its room is not free before YARN says so
            return states.STOPPING, None, None
        return state, None, None
    ended = report.ended or report.submitted
    if told.get("verdict") and states.is_terminal(state):
        return state, told["verdict"], ended
    return *_without_master(report, standing is not None), ended


def _without_master(report: Report, ran: bool) -> tuple[str, Mapping[str, Any]]:
    """The master could not say how it ended: it was killed, or never came to life."""
    words = report.diagnostics.strip()
    if report.state == "KILLED":
        before = "" if ran else " before it started"
        verdict = Verdict("stopped", f"its application was killed{before}", hint=_short(words))
        return states.STOPPED, verdict.to_json()
    if report.final_status == "SUCCEEDED":
        return states.SUCCEEDED, Verdict("success", "").to_json()
    message = f"its ApplicationMaster failed: {_short(words) or 'YARN does not say why'}"
    hint = "`dromon show` has the links to YARN's own pages."
    if (code := CODE.search(words)) and (said := SAID.findall(words)):
        message = f"its ApplicationMaster ended with code {code[1]}: {_last(said[-1])}"
        if code[1] == NOT_FOUND:
            hint = "Every node must have the Python that `yarn: {python: …}` names, at that path."
    return states.FAILED, Verdict("internal", message, hint=hint).to_json()


def _short(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return " ".join(lines[:3])[:600]


def _last(words: str) -> str:
    """Of a traceback, what it ends with."""
    return words.strip().splitlines()[-1][:600]


def _member(member: Mapping[str, Any]) -> MemberStatus:
    return MemberStatus(
        member=member["member"],
        run=member["run"],
        rank=member["rank"],
        state=member["state"],
        host=member["node"] or member["host"],
        pid=member["pid"],
        memory=member["memory"],
        exit=member["exit"],
    )
