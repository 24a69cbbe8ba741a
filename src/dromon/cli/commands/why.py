"""`dromon why`: the sentence that explains a job's present state."""

from __future__ import annotations

import sys
import time

from dromon.cli.parser import add_on, add_output, add_ref, where
from dromon.cli.words import end_sentence, ran_for, title, waiting_lines
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Say why a job does not run yet: what it waits for, who holds it, and what would let it "
        "start. Of a job that has ended: how, and the last lines of the member that failed first.",
        examples="""
dromon why        the last job
dromon why 41
dromon why 41 --if-preempt     whom it would send away; nobody is
""",
    )
    add_ref(parser, nargs="?")
    parser.add_argument(
        "--if-preempt", action="store_true", help="who would have to go for it; on this machine"
    )
    add_on(parser)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    if args.if_preempt:
        return if_preempt(args, api)
    waiting = api.why(args.ref, **where(args))
    if args.output:
        from dromon.cli.plain import print_json

        print_json(waiting)
        return 0
    if waiting is not None:
        lines = waiting_lines(waiting)
    else:
        status = api.status(args.ref, **where(args))
        if status.is_terminal:
            verdict = status.verdict or {}
            lines = [f"{title(status)} {end_sentence(status)}"]
            lines += [f"  | {line}" for line in verdict.get("last_lines", ())]
            if verdict.get("hint"):
                lines.append(f"  to do     {verdict['hint']}")
        else:
            ran = ran_for(status, time.time())
            since = f" for {format_duration(ran)}" if ran is not None else ""
            lines = [f"{title(status)} does not wait: it has been {status.state}{since}"]
    sys.stdout.write("".join(line + "\n" for line in lines))
    return 0


def if_preempt(args: Namespace, api: Api) -> int:
    """A dry run: nobody is sent away by asking."""
    victims = api.machine().would_preempt(args.ref)
    if args.output:
        from dromon.cli.plain import print_json

        print_json(victims)
        return 0
    if not victims:
        sys.stdout.write("nobody would be sent away for it\n")
        return 0
    total = format_duration(sum(each["lost"] for each in victims))
    since = "since their last checkpoints" if len(victims) > 1 else "since its last checkpoint"
    lines = [f"{len(victims)} would give way, and lose {total} of GPU time {since}:"]
    for each in victims:
        part = "" if each["whole"] else f"; only {', '.join(each['members'])}"
        whose = f"{each['user']}, queue {each['queue']}"
        lines.append(f"  {each['job']} ({whose}): {format_duration(each['lost'])}{part}")
    sys.stdout.write("".join(line + "\n" for line in lines))
    return 0
