"""Volcano Jobs, and plain Jobs of Kubernetes, as job files: what `dromon import volcano` does.

Text in, text and notes out. What has no place in a job file goes under `kubernetes:`, merged last
into the pods as it was; what can go nowhere is said, with its place in the source.
"""

from dromon.compat.volcano.translate import Imported, import_job

__all__ = ["Imported", "import_job"]
