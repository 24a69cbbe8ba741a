"""What git knows about a working directory. Reads `.git` itself; git is asked for `dirty` alone."""

import os
import subprocess
import threading
from typing import Any

from dromon.packaging.ignore import Rules
from dromon.packaging.tree import read

STATUS_SECONDS = 5.0
_dirty: dict[tuple[str, str, str, int], bool] = {}
_lock = threading.Lock()


def find(workdir: str) -> tuple[str, str] | None:
    """(top of the work tree, its git directory) for a directory inside one."""
    here = os.path.realpath(workdir)
    while True:
        dot = os.path.join(here, ".git")
        if os.path.isdir(dot):
            return (here, dot) if os.path.exists(os.path.join(dot, "HEAD")) else None
        if os.path.isfile(dot):  # a worktree or a submodule
            line = _first_line(dot)
            if not line.startswith("gitdir:"):
                return None
            return here, os.path.normpath(os.path.join(here, line[7:].strip()))
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def outer_rules(workdir: str) -> tuple[Rules, list[tuple[str, str, str]]]:
    """The ignore rules that bear on `workdir` from above it and from `.git/info/exclude`, and the
    texts they come from.

    A repository that ignores the directory itself says nothing about what is inside: whoever names
    an ignored directory as workdir wants it.
    """
    found = find(workdir)
    if found is None:
        return Rules(), []
    top, git = found
    inside = os.path.relpath(os.path.realpath(workdir), top)
    steps = [] if inside == "." else inside.split("/")
    sources: list[tuple[str, str, str]] = []
    exclude = os.path.join(_common(git), "info", "exclude")
    if os.path.isfile(exclude):
        sources.append((".git/info/exclude", "/".join([*steps, ""]), read(exclude)))
    for depth in range(len(steps)):
        file = os.path.join(top, *steps[:depth], ".gitignore")
        if os.path.isfile(file):
            label = os.path.relpath(file, os.path.realpath(workdir))
            sources.append((label, "/".join([*steps[depth:], ""]), read(file)))
    rules = Rules()
    for label, prefix, text in sources:
        rules = rules.outer(label, prefix, text)
    if any(_ignored(sources, steps, depth) for depth in range(1, len(steps) + 1)):
        return Rules(), []
    return rules, sources


def facts(workdir: str, digest: str = "") -> dict[str, Any]:
    """{"commit", "branch", "dirty"}, as far as known; {} outside a work tree.

    `digest` is the snapshot's: the same code, commit and git index are dirty or not as before.
    """
    found = find(workdir)
    if found is None:
        return {}
    _, git = found
    out: dict[str, Any] = {}
    head = _first_line(os.path.join(git, "HEAD"))
    if head.startswith("ref:"):
        ref = head[4:].strip()
        out["branch"] = ref.removeprefix("refs/heads/")
        commit = _first_line(os.path.join(git, ref)) or _resolve(_common(git), ref)
    else:
        commit = head
    if commit:
        out["commit"] = commit
    dirty = _is_dirty(workdir, digest, commit, git)
    if dirty is not None:
        out["dirty"] = dirty
    return out


def _is_dirty(workdir: str, digest: str, commit: str, git: str) -> bool | None:
    try:
        index = os.stat(os.path.join(git, "index")).st_mtime_ns
    except OSError:
        index = 0
    key = (os.path.realpath(workdir), digest, commit, index)
    with _lock:
        if digest and key in _dirty:
            return _dirty[key]
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "status", "--porcelain", "--", "."],
            cwd=workdir, env={**env, "GIT_OPTIONAL_LOCKS": "0"}, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=STATUS_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    with _lock:
        if len(_dirty) > 256:
            _dirty.clear()
        _dirty[key] = bool(done.stdout.strip())
        return _dirty[key]


def _ignored(sources: list[tuple[str, str, str]], steps: list[str], depth: int) -> bool:
    """Whether the directory `depth` steps below the top is ignored."""
    rules = Rules()
    path = "/".join(steps[:depth])
    for label, prefix, text in sources:
        above = len(steps) - prefix.count("/")  # how deep the file that says so lies
        if above < depth:
            base = "/".join([*steps[:above], ""]) if above else ""
            rules = rules.below(base, label, text, own=False)
    return rules.why_ignored(path, steps[depth - 1], True) is not None


def _common(git: str) -> str:
    """Worktrees share refs and excludes with the repository they were made from."""
    line = _first_line(os.path.join(git, "commondir"))
    return os.path.normpath(os.path.join(git, line)) if line else git


def _resolve(common: str, ref: str) -> str:
    loose = _first_line(os.path.join(common, ref))
    if loose:
        return loose
    try:
        for line in read(os.path.join(common, "packed-refs")).splitlines():
            commit, _, name = line.partition(" ")
            if name == ref:
                return commit
    except OSError:
        pass
    return ""


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
