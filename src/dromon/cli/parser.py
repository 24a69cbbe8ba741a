"""How arguments are read: argparse, with errors that are Dromon's and help that teaches.

Types of arguments that several commands share live here too. No command does.
"""

from __future__ import annotations

import argparse
import os

from dromon.cli.console import width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

Namespace = argparse.Namespace
PLACES = "local, yarn, kubernetes, or a context's name"
CHOSEN = "where (default: $DROMON_ON, the context in use, or local)"
# Dromon speaks one language; argparse would search the disk for others, for a whole millisecond.
argparse._ = str  # type: ignore[attr-defined]


class Formatter(argparse.HelpFormatter):
    """Paragraphs are wrapped, indented lines stay as they are.

    The width is given, because argparse would import half of `shutil` to find it.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(width_of(1) or 100, 100))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap

        parts = text.strip("\n").split("\n\n")
        return "\n\n".join(
            part if "\n  " in part or part.startswith(" ") else textwrap.fill(part, width)
            for part in parts
        )


class Parser(argparse.ArgumentParser):
    """A command's parser. Options may stand anywhere before `--`, none can be abbreviated."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", Formatter)
        super().__init__(allow_abbrev=False, **options)
        self.hint = f"`{self.prog} --help` explains it."
        self._positionals.title = "arguments"
        self.takes_rest = False  # whether what follows `--` is somebody else's, kept as `rest`

    def about(self, description: str, *, examples: str = "", codes: str = "") -> None:
        self.description = description
        end = "examples:\n" + indent(examples) if examples else ""
        if codes:
            end += ("\n\n" if end else "") + "exit codes:\n" + indent(codes)
        self.epilog = end or None

    def parse(self, words: Sequence[str]) -> Namespace:
        words, rest = list(words), None
        if self.takes_rest and "--" in words:
            cut = words.index("--")
            words, rest = words[:cut], words[cut + 1 :]
        args = self.parse_intermixed_args(words)
        args.rest = rest
        return args

    def error(self, message: str) -> NoReturn:
        from dromon.errors import UsageError

        raise UsageError(f"{self.prog[7:]}: {message}", hint=self._near(message) or self.hint)

    def _near(self, message: str) -> str:
        """For `unrecognized arguments: --rnak 3`: the option that was meant."""
        import difflib

        if not message.startswith("unrecognized arguments: "):
            return ""
        known = [word for action in self._actions for word in action.option_strings]
        typed = message.split()[2].split("=")[0]
        near = difflib.get_close_matches(typed, known, n=1, cutoff=0.7)
        return f"Did you mean {near[0]}?" if typed.startswith("-") and near else ""


def indent(text: str) -> str:
    return "\n".join("  " + line for line in text.strip("\n").splitlines())


def duration(text: str) -> float:
    """An argument's type: "90s", "2h"; a bare number is seconds."""
    from dromon.units import parse_duration

    try:
        return parse_duration(float(text) if text.replace(".", "", 1).isdigit() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def whole(text: str) -> int:
    """An argument's type: 0, 1, 2 …"""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def add_ref(parser: Parser, *, nargs: str | None = None, what: str = "the job") -> None:
    """The argument that names a job. Without one, the last job is meant where that is harmless."""
    text = f"{what}: a number, an id, a name, the first letters of either, or @last"
    action = parser.add_argument(
        "refs" if nargs == "+" else "ref",
        metavar="JOB",
        nargs=nargs,
        default="@last" if nargs == "?" else None,
        help=text + (" (default: @last)" if nargs == "?" else ""),
    )
    complete(action, "job")


def add_on(parser: Parser, text: str = "where the job is (default: it is looked for)") -> None:
    complete(parser.add_argument("--on", metavar="NAME", help=f"{text}; {PLACES}"), "context")
    parser.add_argument(
        "--as", dest="acting_as", metavar="USER", help="act as somebody else on a cluster"
    )


def where(args: Namespace) -> dict[str, Any]:
    """What --on says, as an argument of the call; nothing without it. --as goes beside it, in the
    environment, where every engine that is made from here on finds it."""
    if args.acting_as:
        os.environ["DROMON_AS"] = args.acting_as
    return {"on": args.on} if args.on else {}


def complete(action: argparse.Action, what: str) -> None:
    """Tell `dromon completion` what stands here: "job", "context" or "file"."""
    action.dromon_complete = what  # type: ignore[attr-defined]


def add_output(parser: Parser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=("json",),
        metavar="json",
        help="print JSON",
    )
