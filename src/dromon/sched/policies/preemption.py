"""Who may be sent away for somebody else; a policy names one of these."""

from typing import Final

NONE: Final = "none"  # nobody
PRIORITY: Final = "priority"  # lesser jobs of the same queue, and what is borrowed
REPACK: Final = "repack"  # whoever is not among the first when all are placed from an empty cluster
