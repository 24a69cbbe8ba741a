"""Which site file is this machine's: $DROMON_SITE, else one beside the contexts, else the system's.

The first that is there counts alone; they are not put together.
"""

import os

from dromon import contexts

NAME = "site.yaml"
SYSTEM = "/etc/dromon/site.yaml"


def path() -> str | None:
    """None where there is none, or where $DROMON_SITE is empty. What it names need not exist:
    that is said on reading."""
    configured = os.environ.get("DROMON_SITE")
    if configured is not None:
        return os.path.abspath(os.path.expanduser(configured)) if configured else None
    for found in (os.path.join(contexts.directory(), NAME), SYSTEM):
        if os.path.exists(found):
            return found
    return None
