"""Writes the generated pages of docs/reference, or with --check says which are out of date.

The pages are made from the code they describe: the job file's from the models of `spec`, the
command line's from its parsers, the engines' from what the contract suite found. Nothing is
explained here.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from dromon.cli import main as cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "reference"
RESULTS = ROOT / "tests" / "contract" / "results"
ENGINES = {"local": "this machine", "yarn": "YARN", "kubernetes": "Kubernetes"}
SIGNS = {"passed": "yes", "failed": "**no**"}


def job_file() -> str:
    from dromon.spec.reference import render

    return render()


def site_file() -> str:
    from dromon.site.reference import render

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


def engines() -> str:
    """From what the contract suite found: see tests/contract/conftest.py."""
    files = {name: RESULTS / f"{name}.json" for name in ENGINES}
    found = {n: json.loads(f.read_text()) if f.exists() else {} for n, f in files.items()}
    lines = [
        "# What each engine gives",
        "",
        "Made by `make docs` from the last runs of the contract suite, which is the same for every",
        "engine: `tests/contract`, on this machine, on a real YARN and on a real Kubernetes with",
        "Volcano. What an engine cannot give beyond it, `dromon plan` says for a job.",
    ]
    tests = sorted({test for each in found.values() for test in each})
    for file in sorted({test.partition("::")[0] for test in tests}):
        lines += ["", f"## {file.removeprefix('test_').capitalize()}", ""]
        lines += [f"| | {' | '.join(ENGINES.values())} |", "|---" * (len(ENGINES) + 1) + "|"]
        for test in (test for test in tests if test.startswith(f"{file}::")):
            words = test.partition("::test_")[2].replace("_", " ")
            cells = (SIGNS.get(found[name].get(test, ""), "–") for name in ENGINES)
            lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "job-file.md": job_file,
    "site-file.md": site_file,
    "cli.md": command_line,
    "engines.md": engines,
}


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
