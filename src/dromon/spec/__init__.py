"""The job file: text or data -> a checked `Job`, with every problem in its place.

pydantic and YAML live here and nowhere else. No engine's words, no files read: the caller reads.
"""

from dromon.spec.check import load_data, load_text
from dromon.spec.model import Acls, Environment, Job, Resources, Retries, Role, Volume
from dromon.spec.resolve import has_placeholders, resolve

__all__ = [
    "Acls",
    "Environment",
    "Job",
    "Resources",
    "Retries",
    "Role",
    "Volume",
    "has_placeholders",
    "load_data",
    "load_text",
    "resolve",
]
