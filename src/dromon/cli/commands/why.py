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
""",
    )
    add_ref(parser, nargs="?")
    add_on(parser)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
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
