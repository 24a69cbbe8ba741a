"""From a command of the job file to a program and its arguments, or to a clear refusal."""

import errno
import re
from typing import List, Mapping, Sequence, Tuple, Union

from dromon.agent.process import find_program

NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as shells have it

# Nothing in here means anything to a shell, so bash would only execute it.
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./,:@%+-]*(?: +[A-Za-z0-9_./,:@%+=-]+)*\Z")
_SHELL_WORDS = frozenset(
    [".", ":", "alias", "bg", "bind", "break", "builtin", "caller", "case", "cd", "command",
     "compgen", "complete", "compopt", "continue", "coproc", "declare", "dirs", "disown", "do",
     "done", "echo", "elif", "else", "enable", "esac", "eval", "exec", "exit", "export", "fc",
     "fg", "fi", "for", "function", "getopts", "hash", "help", "history", "if", "in", "jobs",
     "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read",
     "readarray", "readonly", "return", "select", "set", "shift", "shopt", "source", "suspend",
     "test", "then", "time", "times", "trap", "type", "typeset", "ulimit", "umask", "unalias",
     "unset", "until", "wait", "while"]
)  # fmt: skip


def resolve(
    command: Union[str, Sequence[str]], env: Mapping[str, str], directory: str
) -> Tuple[str, List[str]]:
    """The program's path and its argv. Raises OSError as exec would.

    A string runs under `bash -c`; when it is one plain command, bash would do nothing but become
    it, which saves a millisecond to do ourselves.
    """
    argv = _argv(command, env)
    if not argv:
        raise FileNotFoundError(errno.ENOENT, "the command is empty", "")
    return find_program(argv[0], env, directory), argv


def name_of(command: Union[str, Sequence[str]], env: Mapping[str, str]) -> str:
    """The program as the user wrote it, or bash."""
    return "".join(_argv(command, env)[:1])


def _argv(command: Union[str, Sequence[str]], env: Mapping[str, str]) -> List[str]:
    if not isinstance(command, str):
        return list(command)
    return command.split() if _is_plain(command, env) else ["bash", "-c", command]


def _is_plain(command: str, env: Mapping[str, str]) -> bool:
    if not _PLAIN.match(command) or command.split(" ", 1)[0] in _SHELL_WORDS:
        return False
    return "BASH_ENV" not in env and not any(name.startswith("BASH_FUNC_") for name in env)


def refusal(error: OSError, program: str) -> Tuple[int, str]:
    """Exit code and message, with a hint, for a command that could not be started."""
    if error.errno == errno.ENOENT:
        if program == "bash":
            return (
                NOT_FOUND,
                "bash: command not found; write the command as a list to do without it",
            )
        if "/" in program:
            return NOT_FOUND, (
                f"{program}: no such file; is it part of the snapshot, and does the interpreter "
                "in its first line exist?"
            )
        return NOT_FOUND, (
            f"{program}: command not found; is it in the job's environment? "
            f"A program of the working directory is written ./{program}"
        )
    if error.errno == errno.EACCES:
        return NOT_EXECUTABLE, f"{program}: not executable; try `chmod +x {program}`"
    if error.errno == errno.ENOEXEC:
        return (
            NOT_EXECUTABLE,
            f"{program}: not a program; a script's first line says #! and what runs it",
        )
    if error.errno == errno.E2BIG:
        return NOT_EXECUTABLE, f"{program}: its arguments and variables are too long together"
    return NOT_EXECUTABLE, f"{program}: cannot be started: {error.strerror}"
