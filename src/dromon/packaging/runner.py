"""Runs a shipped function in a member: `python run.py PAYLOAD`, from the directory of the code.

This file travels alone, beside a copy of cloudpickle, and must need nothing else: no import of
Dromon, standard library only, Python 3.9. A payload is the user's own, of the user's own job.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback


def main(path: str) -> int:
    with open(path, "rb") as file:
        header = json.loads(file.readline())
        body = file.read()
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if header["python"] != here:
        return _fail(
            "PythonMismatch",
            f"The function was shipped from Python {header['python']}, but this member runs "
            f"Python {here}, which cannot read it. Set `environment.python` to "
            f'"{header["python"]}", or submit from Python {here}.',
        )
    own = os.path.dirname(os.path.abspath(__file__))
    # Our copy, as long as this directory is first.
    import cloudpickle  # type: ignore[import-untyped]

    # Then the user's code goes first, and our copy serves only where there is no other.
    sys.path[:] = [p for p in sys.path if p != own]
    sys.path[:0] = [os.path.normpath(os.path.join(os.getcwd(), p)) for p in header["path"]]
    sys.path.append(own)
    sys.argv[:] = [header["name"]]
    try:
        function, args, kwargs = pickle.loads(body)
    except Exception as error:
        return _fail_with(
            error, f"The function {header['name']} cannot be loaded here: {_line(error)}"
        )
    try:
        value = function(*args, **kwargs)
    except SystemExit as error:
        if error.code not in (None, 0):
            _write("error", _report(error, str(error)))
        raise
    except Exception as error:
        return _fail_with(error, str(error))
    try:
        result = cloudpickle.dumps(value)
    except Exception as error:
        return _fail(
            "ResultError",
            f"The function {header['name']} returned a {type(value).__name__}, which cannot be "
            f"sent back: {_line(error)}",
        )
    _write("result", result)
    return 0


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _fail(kind: str, sentence: str) -> int:
    print(sentence, file=sys.stderr)
    _write("error", pickle.dumps((kind, sentence, "", None)))
    return 1


def _fail_with(error: BaseException, sentence: str) -> int:
    report = _report(error, sentence)
    sys.stderr.write(pickle.loads(report)[2])
    _write("error", report)
    return 1


def _report(error: BaseException, sentence: str) -> bytes:
    """(type, message, traceback, the pickled exception or None); always itself picklable."""
    import cloudpickle

    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next  # the user's traceback starts in the user's code
    text = "".join(traceback.format_exception(kind, error, frames))
    try:
        pickled = cloudpickle.dumps(error)
    except Exception:
        pickled = None
    return pickle.dumps((name, sentence, text, pickled))


def _write(name: str, data: bytes) -> None:
    """Whole or not at all. Of several processes of a member, the first one's counts."""
    directory = os.environ.get("DROMON_MEMBER_DIR", ".")
    if os.environ.get("LOCAL_RANK", "0") != "0":
        name = f"{name}.{os.environ['LOCAL_RANK']}"
    fresh = os.path.join(directory, f".{name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    os.replace(fresh, os.path.join(directory, name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
