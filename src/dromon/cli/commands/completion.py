"""`dromon completion`: a script for the shell, made from every command's own parser."""

from __future__ import annotations

import sys

from dromon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace

SHELLS = ("bash", "zsh", "fish")
JOBS = "dromon ps -a -n 200 --names 2>/dev/null"
CONTEXTS = "dromon context list --names 2>/dev/null"


def configure(parser: Parser) -> None:
    parser.about(
        "Print the completion script of a shell: commands, options, files, and the names of your "
        "jobs.",
        examples="""
bash:  dromon completion bash > ~/.local/share/bash-completion/completions/dromon
zsh:   dromon completion zsh > ~/.zfunc/_dromon      (with ~/.zfunc in $fpath)
fish:  dromon completion fish > ~/.config/fish/completions/dromon.fish
""",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def execute(args: Namespace, api: Api) -> int:
    import shtab

    sys.stdout.write(shtab.complete(every_parser(), args.shell))
    return 0


def every_parser() -> Parser:
    """All commands under one root, as shtab wants them. Nothing else ever builds this."""
    import shtab

    from dromon.cli.main import COMMANDS, load

    root = Parser(prog="dromon")
    commands = root.add_subparsers()
    kinds = {"file": shtab.FILE, "job": shtab.cmd(JOBS), "context": shtab.cmd(CONTEXTS)}
    for name, text in COMMANDS.items():
        parser = commands.add_parser(name, help=text)
        load(name).configure(parser)
        parser.description = text  # the paragraph is too long for a shell's list
        for action in parser._actions:
            kind = getattr(action, "dromon_complete", None)
            if kind:
                action.complete = kinds[kind]  # type: ignore[attr-defined]
    return root
