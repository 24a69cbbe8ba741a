"""The entry: find the command, import only that one, turn what goes wrong into a line and a code.

No command's own arguments and no rendering of jobs here.
"""

from __future__ import annotations

import sys
from errno import ENOSPC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dromon.cli.calls import Api
    from dromon.cli.parser import Parser

# command -> one line of help; its module is dromon.cli.commands.<command>, or of MODULES' name.
GROUPS: dict[str, dict[str, str]] = {
    "run": {
        "run": "run a job file, a script or any command, and follow it",
        "attach": "follow a job that runs already",
        "stop": "stop jobs, giving them time to save their work",
        "rerun": "run a job again: the same code, environment and configuration",
    },
    "look": {
        "ps": "list jobs",
        "logs": "what a job printed",
        "why": "why a job does not run yet, or why it ended",
        "show": "everything about a job",
        "diff": "what differs between two jobs",
        "nodes": "what this machine or a cluster has, and who holds it",
        "queues": "where jobs wait, and how much each queue may have",
        "report": "who used what, who waited, how busy it was",
        "simulate": "what the scheduler would make of a trace, on nodes you do not have",
        "watch": "say what becomes of jobs, and help on those a cluster has forgotten",
    },
    "write a job file": {
        "init": "write a commented job file for a script",
        "check": "check a job file and run nothing",
        "plan": "the native request each engine would get",
        "schema": "the JSON Schema of the job file, for editors",
        "import": "make a job file of one written for another tool",
    },
    "keep house": {
        "rm": "remove ended jobs and all they kept",
        "gc": "remove what no job needs any more",
        "context": "names for the clusters jobs can go to",
        "cluster": "a cluster's own configuration: made from a site file, or checked",
        "queue": "change a queue of this machine while it is in use",
        "node": "let nothing new start on this machine, or let it again",
        "daemon": "the process that runs jobs on this machine",
        "completion": "completion for bash, zsh or fish",
        "version": "print the version",
    },
}
MODULES = {"import": "importing"}  # a word of Python's own names no module well
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}

OPENING = """\
Dromon runs deep-learning jobs: one process or a whole gang, queued, watched and kept.

  dromon run train.py                     queue a script on this machine and follow it
  dromon run train.py --gpus 1 -- --lr 3  with one GPU; after -- come the script's own arguments
  dromon run job.yaml config.lr=1e-4      run a job file, one value changed
  dromon run job.yaml --on yarn           the same file on a cluster
  dromon ps                               what runs and what waits

usage: dromon COMMAND [ARGUMENTS]
"""

CLOSING = """\
A job is named by its number (41), its id, its name, the first letters of either, or @last.
`dromon COMMAND --help` explains a command; --debug shows the traceback of an error.
Exit codes: the job's own when attached; else 0 done, 1 the job failed, 64 wrong usage,
65 refused, 69 the engine cannot be reached, 70 a bug in Dromon, 130 interrupted.
"""


def overview() -> str:
    parts = [OPENING]
    for title, group in GROUPS.items():
        parts.append(f"\n{title}:\n")
        parts.extend(f"  {name:<12}{text}\n" for name, text in group.items())
    parts.append("\n" + CLOSING)
    return "".join(parts)


def main(argv: Sequence[str] | None = None, api: Api | None = None) -> int:
    """Run one command and return its exit code. Tests hand in an `api` of their own."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = take_debug(words)
    try:
        code = dispatch(words, api)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        silence_stdout()
        return 141  # what a shell shows for a program ended by SIGPIPE
    except KeyboardInterrupt:
        if debug:
            raise
        return 130
    except Exception as error:
        if debug:
            raise
        return report(error)


def take_debug(words: list[str]) -> bool:
    """Whether --debug stands among Dromon's own words; takes it out of them."""
    end = words.index("--") if "--" in words else len(words)
    if "--debug" not in words[:end]:
        return False
    words.remove("--debug")
    return True


def dispatch(words: list[str], api: Api | None) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        if len(words) > 1:
            return dispatch([words[1], "--help"], api)
        sys.stdout.write(overview())
        return 0
    name, *rest = words
    if name in ("version", "--version", "-V") and not rest:
        from dromon import __version__

        sys.stdout.write(f"dromon {__version__}\n")
        return 0
    if name not in COMMANDS:
        raise unknown(name)
    module = load(name)
    parser = make_parser(name)
    module.configure(parser)
    args = parser.parse(rest)
    if api is None:
        import dromon.api

        api = dromon.api
    code: int = module.execute(args, api)
    return code


def load(name: str):  # type: ignore[no-untyped-def]
    """A command's module. (A function of `importlib` would do, were it not slower to import.)"""
    path = f"dromon.cli.commands.{MODULES.get(name, name)}"
    __import__(path)
    return sys.modules[path]


def make_parser(name: str) -> Parser:
    from dromon.cli.parser import Parser

    return Parser(prog=f"dromon {name}")


def unknown(name: str) -> Exception:
    import difflib

    from dromon.errors import UsageError

    if name.startswith("-"):
        return UsageError(f"unknown option {name}", hint="`dromon --help` lists the commands.")
    if name.endswith((".py", ".sh", ".yaml", ".yml")):
        best = f"run {name}"
    else:
        near = difflib.get_close_matches(name, [*SYNONYMS, *COMMANDS], n=1, cutoff=0.5)
        best = SYNONYMS.get(near[0], near[0]) if near else ""
    hint = f"Did you mean `dromon {best}`?" if best else "`dromon --help` lists the commands."
    return UsageError(f"there is no command {name!r}", hint=hint)


# What other tools call it; only ever used for a hint.
SYNONYMS = {
    "submit": "run", "start": "run", "launch": "run", "sbatch": "run -d", "srun": "run",
    "list": "ps", "ls": "ps", "status": "ps", "jobs": "ps", "squeue": "ps",
    "cancel": "stop", "kill": "stop", "scancel": "stop", "delete": "rm", "remove": "rm",
    "describe": "show", "info": "show", "inspect": "show", "get": "show",
    "log": "logs", "tail": "logs -f", "events": "show", "validate": "check", "lint": "check",
    "render": "plan", "retry": "rerun", "clean": "gc", "prune": "gc", "gpus": "nodes",
}  # fmt: skip


def report(error: Exception) -> int:
    """One message and one hint on stderr; the exit code the error asks for."""
    from dromon.cli.console import Console
    from dromon.errors import DromonError, JobFileError

    console = Console()
    if isinstance(error, JobFileError):
        for problem in error.problems:
            console.line(str(problem))
        count, files = len(error.problems), {problem.file for problem in error.problems}
        where = f" in {files.pop()}" if len(files) == 1 else ""
        console.error(f"{count} problem{'s' if count != 1 else ''}{where}", error.hint)
    elif isinstance(error, DromonError):
        console.error(error.message, error.hint)
    elif isinstance(error, OSError) and error.errno == ENOSPC:
        console.error("the output cannot be written: the disk is full")
        return 70
    else:
        text = " ".join(str(error).split())
        console.error(
            f"{type(error).__name__}: {text}" if text else type(error).__name__,
            "this is a bug; run again with --debug",
        )
        return 70
    return error.exit_code


def silence_stdout() -> None:
    """The reader has gone; without this, Python would complain about the same when it exits."""
    import os

    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(nowhere)
