"""A container's command and arguments as a command of ours. Texts only; nothing is run."""

import re
import shlex
from collections.abc import Mapping

Command = str | list[str]

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_OURS = re.compile(r"\$\$\{|\$\{(?=(?:config|job|volumes)\.)")
_SHELLS = ("sh", "bash", "ash", "dash", "zsh")
_RELATIVE = re.compile(
    r"(?:^|[\s;&|=])((?!/|-|\$|~|https?:)[\w][\w./-]*\.(?:py|sh))(?=$|[\s;&|\"'])"
)
# What only Volcano's plug-ins give: their files, and variables of the tasks.
_VOLCANO = re.compile(r"/etc/volcano/[\w.-]*|\bV[CK]_[A-Z0-9_]+\b|\bMPI_HOST\b")
_LAUNCHER = re.compile(r"(?:^|[\s/;&|(])(?:mpirun|mpiexec)(?=[\s;]|$)")
# Ways to name the hosts, which our own host file does.
_HOSTS = re.compile(
    r"\s+(?:--?(?:host(?:s|file)?|machinefile|default-hostfile)(?:\s+|=)(?:\"[^\"]*\"|'[^']*'|\S+)"
    r"|-[Hf]\s+(?=\S*(?i:host|volcano))\S+)"
)
_SETUP = re.compile(
    r"^\s*(?:(?:export\s+)?MPI_HOST=.*|mkdir\s+(?:-p\s+)?/(?:var/)?run/sshd|"
    r"(?:/usr/sbin/)?sshd(?:\s+-\w+)*|service\s+ssh\s+start)\s*$"
)
_ASSIGNMENT = re.compile(
    r"\s*(?:export\s+)?([A-Za-z_]\w*)=(?:`[^`]*`|\$\([^()]*\)|[^;\s]*)\s*;?\s*$"
)
_TF_CONFIG = re.compile(
    r"\s*(?:export\s+)?TF_CONFIG=(?:[^;\s]*|'[^']*'|\"(?:\\.|[^\"])*\")\s*;?\s*$"
)


def expanded(word: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """Kubernetes' `$(NAME)` filled in, as it does; and the names that only the pod knows."""
    unknown: list[str] = []

    def put(found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None:  # `$$(X)` is an escaped reference; any other `$$` is the shell's
            return "$" if word[found.end() : found.end() + 1] == "(" else "$$"
        if name not in known:
            unknown.append(name)
        return known.get(name, found.group(0))

    return _REFERENCE.sub(put, word), unknown


def escaped(text: str) -> str:
    """Text that is nobody's placeholder, so that ours are not filled in where none were meant."""
    return _OURS.sub(lambda found: "$$${" if found.group(0) == "$${" else "$${", text)


def script_of(words: list[str]) -> int | None:
    """Where in an argument list a shell's script stands: `sh -c SCRIPT`, `bash -lc SCRIPT`."""
    if len(words) < 3 or words[0].rsplit("/", 1)[-1] not in _SHELLS:
        return None
    for at, word in enumerate(words[1:-1], 1):
        if re.fullmatch(r"-[a-z]*c", word):
            return at + 1
        if not word.startswith("-"):
            return None
    return None


def in_directory(words: list[str], directory: str) -> list[str]:
    """The same, begun in a directory of the image."""
    at = script_of(words)
    if at is not None:
        script = f"cd {shlex.quote(directory)}\n{words[at]}"
        return [*words[:at], script, *words[at + 1 :]]
    return ["sh", "-c", f'cd {shlex.quote(directory)} && exec "$@"', "sh", *words]


def simplest(words: list[str]) -> Command:
    """`bash -c SCRIPT` is what a text is; all else stays a list."""
    if words[:2] in (["bash", "-c"], ["/bin/bash", "-c"]) and len(words) == 3:
        return words[2].strip("\n") or words
    return words


def relative_paths(words: list[str]) -> list[str]:
    """Scripts named without a directory: they were looked for where the image begins."""
    text = " ".join(words)
    return list(dict.fromkeys(_RELATIVE.findall(text)))


def volcanos_own(text: str) -> list[str]:
    return list(dict.fromkeys(_VOLCANO.findall(text)))


def launches_mpi(words: list[str]) -> bool:
    return _LAUNCHER.search(" ".join(words)) is not None


def without_hosts(words: list[str]) -> list[str]:
    """An mpirun that finds its hosts by itself: no sshd, no host list."""
    at = script_of(words)
    if at is None:
        line = _HOSTS.sub("", " ".join(map(shlex.quote, words)))
        return shlex.split(line)
    return [*words[:at], _bare(words[at]), *words[at + 1 :]]


def without_config(words: list[str]) -> list[str]:
    """A script that takes its cluster from the framework's variable, and does not make it up."""
    at = script_of(words)
    if at is None:
        return words
    lines = [line for line in words[at].split("\n") if not _TF_CONFIG.match(line)]
    return [*words[:at], _used("\n".join(lines)), *words[at + 1 :]]


def _used(script: str) -> str:
    """Without lines that only put one of Volcano's host lists into a variable nobody reads."""
    lines = script.split("\n")
    for line in list(lines):
        found = _ASSIGNMENT.match(line)
        if found is None or not _VOLCANO.search(line):
            continue
        others = "\n".join(other for other in lines if other is not line)
        if not re.search(rf"\$\{{?{found.group(1)}\b", others):
            lines.remove(line)
    return "\n".join(lines)


def _bare(script: str) -> str:
    lines = []
    for line in script.split("\n"):
        parts = [part for part in re.split(r";|&&", line) if part.strip()]
        if not any(_SETUP.match(part) for part in parts):
            lines.append(line)
            continue
        kept = [part.strip() for part in parts if not _SETUP.match(part)]
        if kept:
            lines.append("; ".join(kept))
    return _used(_HOSTS.sub("", "\n".join(lines)))
