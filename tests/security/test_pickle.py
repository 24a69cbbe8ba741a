"""Nothing that came over a wire or lies on a disk is unpickled, but what a user's own job made."""

import ast
from pathlib import Path

import dromon

SOURCE = Path(dromon.__file__).parent
# Loading these runs code of whoever wrote the bytes.
LOADERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
# The room that ships functions: `load_result` and `load_error` read what the job's own member left
# in its record, and only the caller who asked for the result does so; the runner, which stands
# there as a program of the member's, loads the function inside the member.
ALLOWED = {"packaging/payload.py", "packaging/runner.py"}


def users_of(names: set[str]) -> dict[str, set[str]]:
    """Files that import one of these modules, or name it to an importer."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            used: list[str] = []
            if isinstance(node, ast.Import):
                used = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                used = [node.module or ""]
            elif (
                isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
            ):
                used = [str(node.args[0].value)] if "import" in ast.dump(node.func) else []
            roots = {name.partition(".")[0] for name in used} & names
            if roots:
                found.setdefault(str(path.relative_to(SOURCE)), set()).update(roots)
    return found


def test_only_the_room_that_ships_functions_knows_of_pickle():
    users = set(users_of(LOADERS))
    assert users, "the search finds nothing, not even what is there"
    assert users <= ALLOWED, f"unpickles, and should not: {sorted(users - ALLOWED)}"


def callers_of(names: set[str]) -> dict[str, set[str]]:
    """Files that name one of these functions, outside of where they are written."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else ""
            if name in names:
                found.setdefault(str(path.relative_to(SOURCE)), set()).add(name)
    return found


def test_results_are_loaded_by_the_caller_alone_and_never_by_the_daemon():
    assert callers_of({"load_result", "load_error"}) == {"api.py": {"load_result", "load_error"}}


def test_nothing_is_evaluated():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), f"{path}:{node.lineno}"
