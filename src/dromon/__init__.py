"""Dromon: one file runs a deep-learning job here, on Hadoop YARN, or on Kubernetes with Volcano.

The public names, nothing else. They are loaded when first used, because inside a task only
`context` is wanted and must cost nothing.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["DromonError", "Run", "context", "load", "run", "submit"]

if TYPE_CHECKING:
    from dromon.agent.context import context
    from dromon.api import Run, load, run, submit
    from dromon.errors import DromonError


def __getattr__(name: str) -> Any:
    import importlib

    home = {"context": "dromon.agent.context", "DromonError": "dromon.errors"}
    if name not in __all__:
        raise AttributeError(f"module 'dromon' has no attribute {name!r}")
    return getattr(importlib.import_module(home.get(name, "dromon.api")), name)
