"""Who may be sent away for somebody else; a policy names one of these."""

NONE = "none"  # nobody
PRIORITY = "priority"  # lesser jobs of the same queue, and what is borrowed
REPACK = "repack"  # whoever is not among the first when all are placed from an empty cluster
