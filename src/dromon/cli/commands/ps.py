"""`dromon ps`: jobs as a table."""

from __future__ import annotations

import os
import sys
import time
from argparse import SUPPRESS

from dromon.cli.console import Console, Paint, is_terminal, wants_colour, width_of
from dromon.cli.parser import add_on, add_output, where, whole
from dromon.cli.table import Column, render
from dromon.cli.words import STATE_COLOURS, UP, newest_runs, ran_for, short_verdict, smaller
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.cli.table import Cell
    from dromon.engines.base import JobStatus
    from dromon.places import Listing

EXPLAINED = 8  # waiting jobs whose reason is asked for; each costs the engine a question
PATIENCE = 0.25  # seconds for the reasons of clusters' jobs; large clusters take longer
SHORT = 20  # jobs; of a longer list those of clusters are shown without, at once
PERIOD = 1.0


def configure(parser: Parser) -> None:
    parser.about(
        "List the jobs that run or wait; with -a also those that have ended. The last column "
        "says why a job waits, or how it failed. Clusters that were used from here are asked too, "
        "for a few seconds at most.",
        examples="""
dromon ps
dromon ps -a -n 20       the last 20, ended ones too
dromon ps -w             live, until Ctrl-C
dromon ps --on prod      only what is there
dromon ps --all-users    everybody's, on a shared machine
dromon ps -a -o json | jq -r '.[] | select(.state == "failed") | .id'
""",
    )
    parser.add_argument("-a", "--all", action="store_true", help="also those that have ended")
    parser.add_argument("-w", "--watch", action="store_true", help="keep showing it, live")
    parser.add_argument("-n", "--limit", type=whole, metavar="N", help="at most the newest N")
    parser.add_argument(
        "--all-users", action="store_true", help="of everybody on this shared machine"
    )
    add_on(parser, "only there (default: here, and the clusters used from here)")
    parser.add_argument("--names", action="store_true", help=SUPPRESS)  # for completion
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    if args.watch:
        return watch(args, api)
    jobs = listing(args, api)
    if args.output == "json":
        from dromon.cli.plain import print_json

        print_json(jobs)
    elif args.names:
        sys.stdout.write("".join(f"{name}\n" for job in jobs for name in names(job)))
    elif jobs:
        paint = Paint(wants_colour(1))
        sys.stdout.write(table(jobs, api, time.time(), width_of(1), paint, args.on))
    elif args.all_users:
        Console().say("nobody's job runs or waits on this machine")
    else:
        Console().say("no jobs" if args.all else "nothing runs or waits; `dromon ps -a` shows all")
    if jobs.silent:
        Console().say(unheard(jobs.silent))
    return 0


def listing(args: Namespace, api: Api) -> Listing:
    if not args.all_users:
        return api.jobs(all=args.all, limit=args.limit, **where(args))
    if args.all or args.on:
        from dromon.errors import UsageError

        raise UsageError("--all-users: what runs or waits on this machine, without -a and --on")
    from dromon.places import Listing

    return Listing(api.machine().everyone(args.limit))


def names(job: JobStatus) -> tuple[str, ...]:
    """A number is one of this machine's; typed for another's job it would mean the wrong one."""
    return (str(job.number), job.id) if job.on == "local" else (job.id,)


def unheard(silent: Mapping[str, str]) -> str:
    return "did not answer: " + ", ".join(f"{name} ({why})" for name, why in silent.items())


def table(
    jobs: Sequence[JobStatus],
    api: Api,
    now: float,
    width: int | None,
    paint: Paint,
    on: str | None,
) -> str:
    """Columns that would say the same of every job are left out."""
    hidden = {
        "#": all("/" in job.id for job in jobs),  # other users' have no number here
        "ON": bool(on) or all(job.on == "local" for job in jobs),
        "QUEUE": all(job.queue in ("", "default", "root.default") for job in jobs),
        "PRIO": len({job.priority for job in jobs}) < 2,
        "GPUS": not any(job.resources.get("gpus") for job in jobs),
    }
    columns = (
        Column("#", right=True),
        Column("JOB", least=14),
        Column("ON", least=6),
        Column("STATE"),
        Column("READY", right=True, optional=True),
        Column("GPUS", right=True, optional=True),
        Column("AGE", right=True),
        Column("RAN", right=True, optional=True),
        Column("QUEUE", least=7, optional=True),
        Column("PRIO", right=True, optional=True),
        Column("NOTE", least=16, optional=True),
    )
    reasons = why_they_wait(jobs, api)
    notes = [reasons.get(j.id) or smaller(j) or short_verdict(j.verdict or {}) for j in jobs]
    rows = [row(job, note, now) for job, note in zip(jobs, notes, strict=True)]
    kept = [i for i, column in enumerate(columns) if not hidden.get(column.title)]
    return render([columns[i] for i in kept], [[r[i] for i in kept] for r in rows], width, paint)


def why_they_wait(jobs: Sequence[JobStatus], api: Api) -> dict[str, str]:
    """Of the first few. The list is not kept waiting for those of clusters: whose reason is not
    known in time is shown without, and `dromon why` takes the time."""
    waiting = [job for job in jobs if job.state in ("queued", "preparing", "starting")]
    found: dict[str, str] = {}
    elsewhere = []
    for job in waiting[:EXPLAINED]:
        if job.on == "local":
            found[job.id] = waits_for(job, api)
        else:
            elsewhere.append(job)
    if elsewhere and len(jobs) <= SHORT:
        import threading

        def ask() -> None:
            for job in elsewhere:
                found[job.id] = waits_for(job, api)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(PATIENCE)
    return dict(found)


def waits_for(job: JobStatus, api: Api) -> str:
    from dromon.errors import EngineError

    try:
        waiting = api.why(job.id, on=job.on)
    except EngineError:
        return ""  # it has answered a moment ago; a table is not lost for a note
    return waiting.sentence if waiting else ""


def row(job: JobStatus, note: str, now: float) -> list[Cell]:
    members = newest_runs(job)
    # Sent away and waiting anew: what its members did before says nothing of now.
    waits = job.state == "queued"
    ready = 0 if waits else sum(m.state in UP for m in members.values())
    ran = None if waits else ran_for(job, now)
    return [
        str(job.number) if job.on == "local" else "-",
        job.id,
        job.on,
        (job.state, STATE_COLOURS.get(job.state, "")),
        f"{ready}/{len(members)}" if members else "-",
        f"{job.resources.get('gpus', 0):g}",
        format_duration(now - job.submitted),
        "-" if ran is None else format_duration(ran),
        job.queue,
        str(job.priority),
        (note, "dim"),
    ]


def watch(args: Namespace, api: Api) -> int:
    """Redraw in place every second; plain tables one after another where there is no terminal."""
    if args.output:
        from dromon.errors import UsageError

        raise UsageError("-w shows a table; it cannot be combined with -o")
    live, paint = is_terminal(1), Paint(wants_colour(1))
    if live:
        sys.stdout.write("\x1b[?25l\x1b[2J")
    try:
        while True:
            jobs = listing(args, api)
            text = table(jobs, api, time.time(), width_of(1), paint, args.on)
            if jobs.silent:
                text += paint(unheard(jobs.silent), "dim") + "\n"
            if live:
                rows = text.splitlines()[: max(2, os.get_terminal_size(1).lines - 1)]
                text = "\x1b[H" + "".join(f"{r}\x1b[K\n" for r in rows) + "\x1b[J"
            sys.stdout.write(text)
            sys.stdout.flush()
            time.sleep(PERIOD)
    except KeyboardInterrupt:
        return 0
    finally:
        if live:
            sys.stdout.write("\x1b[?25h")
            sys.stdout.flush()
