"""What the room contracts of docs/architecture.md ask of single files, checked on their syntax.

Import-linter says which room may import which, and keeps clock, chance, I/O and log out of the
PURE rooms. This says the rest: PURE rooms call no built-in that reaches outside; LIGHT rooms import
the standard library and each other, nothing else; no file of Python is longer than 500 lines.
Prints what is wrong, exits 1 if anything.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "dromon"
LIGHT = ("frameworks", "agent", "lifecycle", "coordinator", "hadoop", "errors", "units")
PURE = ("lifecycle", "sched", "frameworks")
LONGEST = 500

# What reaches the world without an import; import-linter forbids the modules.
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})
IMPURE_OF_SYS = frozenset({"stdin", "stdout", "stderr", "argv", "exit"})


def room(file: Path) -> str:
    """The room a file of the package belongs to: its directory, or its own name."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "dromon.(relative)"
            elif node.module == "dromon":
                yield from ((node.lineno, f"dromon.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""


def not_pure(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield node.lineno, f"a pure room calls {name}()"
            case ast.Attribute(value=ast.Name(id="sys"), attr=name) if name in IMPURE_OF_SYS:
                yield node.lineno, f"a pure room touches sys.{name}"


def not_light(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for line, name in imports(tree):
        top, _, rest = name.partition(".")
        if top == "dromon":
            if rest and rest.partition(".")[0] not in LIGHT and rest != "__version__":
                yield line, f"a light room imports {name}, which is not light"
        elif top not in sys.stdlib_module_names:
            yield line, f"a light room imports {name}, which is not in the standard library"


def problems() -> Iterator[str]:
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        found = [*(not_pure(tree) if room(file) in PURE else ())]
        found += not_light(tree) if room(file) in LIGHT else ()
        for line, text in sorted(found):
            yield f"{file.relative_to(ROOT)}:{line}: {text}"
    for folder in ("src", "tests", "scripts", "benchmarks", "examples"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            length = len(file.read_text(encoding="utf-8").splitlines())
            if length > LONGEST:
                yield f"{file.relative_to(ROOT)}:{length}: longer than {LONGEST} lines"


if __name__ == "__main__":
    found = list(problems())
    for problem in found:
        print(problem)
    sys.exit(bool(found))
