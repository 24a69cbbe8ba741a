"""What the containers of a job run: the master's, and its members'. Pure.

A compiled request names its files as {link: {"url", "size", "timestamp", "kind", "visibility"}};
`python` is the interpreter of the members, `master.python` the ApplicationMaster's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dromon.engines.yarn.am.nodes import LocalResource, launch_context

LIGHT, REQUEST = "light.pyz", "request.json"
RUNTIME = "runtime"  # the master's interpreter, where nodes need not have one


def master(
    request: Mapping[str, Any], tokens: bytes, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Of all that the job ships, the ApplicationMaster gets what it needs itself."""
    files = {k: v for k, v in request["artifacts"].items() if k in (LIGHT, REQUEST, RUNTIME)}
    words = _command(request["master"]["python"], "yarn-master", "master")
    return launch_context(_resources(files), environment, words, tokens, _acls(request))


def member(
    request: Mapping[str, Any], member: str, coordinator: str, epoch: int, tokens: bytes
) -> dict[str, Any]:
    files = {k: v for k, v in request["artifacts"].items() if k != RUNTIME}
    environment = {"DROMON_COORDINATOR": coordinator, "DROMON_EPOCH": str(epoch)}
    words = _command(request["python"], f"yarn-member {member}", "agent")
    return launch_context(_resources(files), environment, words, tokens, _acls(request))


def side(request: Mapping[str, Any], tokens: bytes) -> dict[str, Any]:
    """TensorBoard's container."""
    links = (LIGHT, REQUEST, "environment")
    files = {k: v for k, v in request["artifacts"].items() if k in links}
    words = _command(request["python"], "yarn-tensorboard", "tensorboard")
    return launch_context(_resources(files), {}, words, tokens, _acls(request))


def _command(python: str, words: str, log: str) -> list[str]:
    # Isolated and without site: nothing of the node's or the user's Python takes part.
    start = f"exec {python} -I -S -u {LIGHT} {words}"
    # YARN quotes the end of a file whose name has `stderr` in it when a container fails.
    return [start, f"1><LOG_DIR>/{log}.stdout", f"2><LOG_DIR>/{log}.stderr"]


def _resources(files: Mapping[str, Mapping[str, Any]]) -> dict[str, LocalResource]:
    return {link: LocalResource(**file) for link, file in files.items()}


def _acls(request: Mapping[str, Any]) -> dict[str, str]:
    return {str(kind): str(who) for kind, who in request["acls"].items()}
