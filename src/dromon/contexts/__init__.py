"""Contexts: places other than this machine that jobs can run, by name.

$DROMON_CONFIG, else $XDG_CONFIG_HOME/dromon, else ~/.config/dromon
  contexts.json         0600: {"default": NAME, "contexts": {NAME: {"kind": "yarn", "where": …}}}

JSON, because reading it costs a command nothing. Here is only what every command asks, whether
there is such a file at all; the rest is loaded when it is used.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dromon.contexts.file import Context as Context
    from dromon.contexts.file import Contexts as Contexts


def directory() -> str:
    if configured := os.environ.get("DROMON_CONFIG"):
        return os.path.abspath(os.path.expanduser(configured))
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "dromon")


def path() -> str:
    return os.path.join(directory(), "contexts.json")


def in_use() -> str:
    """The context that `dromon context use` has set, or ""."""
    if not os.path.exists(path()):
        return ""
    from dromon.contexts.file import Contexts

    return Contexts.read().default


def __getattr__(name: str) -> Any:
    if name not in ("Context", "Contexts"):
        raise AttributeError(f"module 'dromon.contexts' has no attribute {name!r}")
    import dromon.contexts.file

    return getattr(dromon.contexts.file, name)
