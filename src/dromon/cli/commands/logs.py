"""`dromon logs`: what a job printed, now or for as long as it runs."""

from __future__ import annotations

import sys
import time

from dromon.cli.console import Console
from dromon.cli.lines import LinePrinter
from dromon.cli.parser import add_on, add_output, add_ref, where, whole
from dromon.cli.words import end_colour, end_sentence, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.engines.base import JobStatus, LogLine


def configure(parser: Parser) -> None:
    parser.about(
        "Print what a job has printed. A gang's lines come with the member's name before them; a "
        "single member's come as they were. Logs stay after the job has ended.",
        examples="""
dromon logs                      the last job
dromon logs 41 -f                follow it
dromon logs 41 --rank 0 --tail 100
dromon logs unet3d --since 10m --timestamps
""",
    )
    add_ref(parser, nargs="?")
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help="go on until the job ends")
    add("--rank", type=whole, action="append", metavar="N", help="only this rank; repeatable")
    add("--member", action="append", metavar="NAME", help="only this member, as worker-0")
    add("--since", metavar="TIME", help="10m ago, or a date: 2026-03-01T12:00")
    add("--tail", type=whole, metavar="N", help="only the last N lines of each member")
    add("-t", "--timestamps", action="store_true", help="the time before each line")
    add("--all-runs", action="store_true", help="also what earlier attempts printed")
    add_on(parser)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    since = None if args.since is None else moment(args.since, time.time())
    lines = api.logs(
        args.ref,
        follow=args.follow,
        ranks=args.rank,
        members=args.member,
        since=since,
        tail=args.tail,
        all_runs=args.all_runs,
        **where(args),
    )
    if args.output:
        from dromon.cli.plain import print_json_line

        for line in lines:
            print_json_line(line)
            if args.follow:
                sys.stdout.flush()
        return 0
    print_lines(args, api, lines)
    if args.follow:
        say_end(args, api)
    return 0


def print_lines(args: Namespace, api: Api, lines: Iterator[LogLine]) -> None:
    def members() -> list[str]:
        return [m.member for m in api.status(args.ref, **where(args)).members]

    printer = LinePrinter(members, split=False, timestamps=args.timestamps, live=args.follow)
    count = 0
    # Logs that are complete come in bulk, where the engine has them so.
    if texts := getattr(lines, "texts", None):
        for text in texts(plain=not args.timestamps):
            printer.print_text(text)
            count += 1
    else:
        for line in lines:
            printer.print(line)
            count += 1
    printer.flush()
    if not count and not args.follow:
        status = api.status(args.ref, **where(args))
        Console().say(f"nothing to show; {title(status)} {reason(args, status)}")


def reason(args: Namespace, status: JobStatus) -> str:
    """That whoever was asked for takes no part, if that is so; else how the job stands."""
    names, ranks = ({getattr(m, each) for m in status.members} for each in ("member", "rank"))
    asked = [name for name in args.member or () if name not in names]
    asked += [f"rank {rank}" for rank in args.rank or () if rank not in ranks]
    there = f"; it has {', '.join(sorted(names))}" if len(names) < 10 else ""
    if not names or not asked:
        return f"is {status.state}"
    return f"has no {' and no '.join(asked)}{there}"


def say_end(args: Namespace, api: Api) -> None:
    status, console = api.status(args.ref, **where(args)), Console()
    if status.is_terminal:
        sentence = f"{title(status)} {end_sentence(status)}"
        console.say(console.paint(sentence, end_colour(status)))


def moment(text: str, now: float) -> float:
    """From "10m" before now, or a date in ISO form (local time unless it says otherwise)."""
    from dromon.errors import UsageError
    from dromon.units import parse_duration

    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    import datetime

    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(
            f"--since: {text!r} is neither a duration nor a date",
            hint="Write 10m, 2h, 2026-03-01 or 2026-03-01T12:30.",
        ) from None
