"""Writes the generated pages of docs/reference, or with --check says which are out of date.

The pages are made from the code they describe: the job file's from the models of `spec`, the
command line's from its parsers. Nothing is explained here.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from dromon.cli import main as cli

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"


def job_file() -> str:
    from dromon.spec.reference import render

    return render()


def command_line() -> str:
    # Not argparse's own help: its layout differs between versions of Python.
    return "\n".join(_command_line()) + "\n"


def _command_line() -> Iterator[str]:
    yield "# Command line"
    yield ""
    yield "Made from the parsers by `make docs`. `dromon COMMAND --help` says the same."
    for title, group in cli.GROUPS.items():
        yield f"\n## To {title}\n"
        for name, text in group.items():
            yield f"- [`{name}`](#dromon-{name}): {text}"
    for name in cli.COMMANDS:
        yield from _command(name)
    yield ""
    yield "Exit codes: [exit-codes](../exit-codes.md)."


def _command(name: str) -> Iterator[str]:
    parser = cli.make_parser(name)
    cli.load(name).configure(parser)
    yield f"\n## `dromon {name}`\n"
    yield parser.description or cli.COMMANDS[name].capitalize() + "."
    hidden = (None, argparse.SUPPRESS)
    actions = [a for a in parser._actions if a.help not in hidden and a.dest != "help"]
    if actions:
        yield "\n| | |\n|---|---|"
    for action in actions:
        text = (action.help or "") % {"default": action.default}
        yield f"| `{_names(action)}` | {_cell(text)} |"
    if parser.epilog:
        yield f"\n```\n{parser.epilog.strip()}\n```"


def _names(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"{metavar} …" if action.nargs in ("*", "+") else metavar
    takes_value = action.nargs != 0
    if takes_value and action.metavar is None and action.choices:
        metavar = ",".join(map(str, action.choices))
    return ", ".join(action.option_strings) + (f" {metavar}" if takes_value else "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {"job-file.md": job_file, "cli.md": command_line}


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    stale = []
    for name, make in PAGES.items():
        file, text = DOCS / name, make()
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            DOCS.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"docs/reference/{name} written")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; `make docs` writes them anew")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
