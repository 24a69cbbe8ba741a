"""`dromon init`: a commented job file to start from."""

from __future__ import annotations

import os

from dromon.cli.console import Console
from dromon.cli.parser import complete
from dromon.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Write a commented job file for a script. An existing file is never overwritten.",
        examples="""
dromon init train.py
dromon init train.py -o jobs/train.yaml
""",
    )
    action = parser.add_argument(
        "script", metavar="SCRIPT", nargs="?", help="the script (default: the only .py file here)"
    )
    complete(action, "file")
    parser.add_argument(
        "-o", "--output", default="job.yaml", metavar="FILE", help="default: job.yaml"
    )


def execute(args: Namespace, api: Api) -> int:
    script = args.script or only_script()
    if not os.path.isfile(script):
        from dromon.cli.target import missing

        raise missing(script)
    from dromon.spec.starter import starter

    try:
        with open(script, encoding="utf-8", errors="replace") as source:
            text = starter(script, source.read())
    except OSError as error:
        raise UsageError(f"cannot read {script}: {error.strerror}") from None
    try:
        with open(args.output, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{args.output} exists already", hint="Choose another name: `-o other.yaml`."
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {args.output}: {error.strerror}") from None
    console = Console()
    console.say(f"wrote {args.output} for {script}")
    console.line(f"next: dromon check {args.output} · dromon run {args.output}")
    return 0


def only_script() -> str:
    found = sorted(name for name in os.listdir(os.curdir) if name.endswith(".py"))
    for likely in ("train.py", "main.py"):
        if likely in found:
            return likely
    if len(found) == 1:
        return found[0]
    raise UsageError("which script?", hint="`dromon init SCRIPT`, for example train.py.")
