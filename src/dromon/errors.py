"""Every error a user can meet, as one tree. A class carries its message, a hint and an exit code.

    DromonError
    ├── UsageError             what was typed makes no sense
    │   ├── JobFileError       the job file, with every problem and its place
    │   ├── JobNotFound        no job of that name, number, id or prefix
    │   └── AmbiguousJob       several jobs answer to it
    ├── Refused                understood, but it can never run here
    │   └── PackagingError     the code or its environment cannot be fixed by digest
    │       └── EnvironmentFailed   uv could not resolve or build what was asked
    ├── EngineError            the machinery below could not be reached or answered wrongly
    │   ├── DaemonUnreachable
    │   ├── VersionMismatch
    │   └── StateDirectoryUnusable
    └── JobFailed              the user's own job failed (raised by ``Run.result``)

No I/O and no formatting for terminals here. LIGHT: standard library only, Python 3.9.
"""

from typing import Any, Dict, List, Optional, Sequence


class DromonError(Exception):
    """Something Dromon can explain. ``hint`` says what to do about it."""

    hint: str = ""
    exit_code: int = 70

    def __init__(self, message: str = "", *, hint: Optional[str] = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())
        if hint is not None:
            self.hint = hint

    @property
    def message(self) -> str:
        return str(self)

    def to_json(self) -> Dict[str, Any]:
        return {"error": type(self).__name__, "message": self.message, "hint": self.hint}


class UsageError(DromonError):
    """The command line makes no sense."""

    exit_code = 64


class Problem:
    """One thing wrong in a file: where, at which key, what, and what to do."""

    def __init__(
        self, file: str, line: int, column: int, path: str, text: str, suggestion: str = ""
    ) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.path = path
        self.text = text
        self.suggestion = suggestion

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        where = f"{self.path}: " if self.path else ""
        tail = f"; {self.suggestion}" if self.suggestion else ""
        return f"{place}: {where}{self.text}{tail}"

    def to_json(self) -> Dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "text": self.text,
            "suggestion": self.suggestion,
        }


class JobFileError(UsageError):
    """The job file has problems."""

    hint = "`dromon check FILE` checks a file without running it."

    def __init__(self, problems: Sequence[Problem], *, hint: Optional[str] = None) -> None:
        self.problems: List[Problem] = list(problems)
        super().__init__("\n".join(str(p) for p in self.problems), hint=hint)

    def to_json(self) -> Dict[str, Any]:
        return {**super().to_json(), "problems": [p.to_json() for p in self.problems]}


class JobNotFound(UsageError):
    """No such job."""

    hint = "List jobs with `dromon ps -a`."


class AmbiguousJob(UsageError):
    """Several jobs answer to that name."""

    hint = "Use the full id, or the job's number."


class Refused(DromonError):
    """This can never run here."""

    exit_code = 65


class PackagingError(Refused):
    """The code or the environment cannot be packaged."""


class EnvironmentFailed(PackagingError):
    """The environment could not be resolved or built."""

    hint = "Check names, versions and `environment.python` in the job file."


class EngineError(DromonError):
    """The engine did not do what was asked."""

    exit_code = 69


class DaemonUnreachable(EngineError):
    """The daemon of this machine does not answer."""

    hint = "See `dromon daemon logs`; `dromon daemon stop` ends a stuck one, jobs go on."


class VersionMismatch(EngineError):
    """Client and daemon are of different versions."""

    hint = "`dromon daemon restart` starts the daemon anew; running jobs go on."


class StateDirectoryUnusable(EngineError):
    """The state directory cannot be used."""

    hint = "Point DROMON_HOME at a writable directory on a local disk."


class JobFailed(DromonError):
    """The job failed."""

    exit_code = 1


BY_NAME = {
    c.__name__: c
    for c in (
        DromonError, UsageError, JobNotFound, AmbiguousJob, Refused, PackagingError,
        EnvironmentFailed, EngineError, DaemonUnreachable, VersionMismatch,
        StateDirectoryUnusable, JobFailed,
    )
}  # fmt: skip


def from_json(data: Dict[str, Any]) -> DromonError:
    """The error another process sent, as this process would have raised it."""
    if data.get("error") == "JobFileError":
        return JobFileError([Problem(**p) for p in data.get("problems", ())], hint=data["hint"])
    kind = BY_NAME.get(str(data.get("error")), EngineError)
    return kind(str(data.get("message", "")), hint=str(data.get("hint", "")))
