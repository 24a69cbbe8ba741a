"""Starts the daemon as nobody's child: forks before anything heavy is imported.

    python -m dromon.engines.local.spawn --ready FD …    further words are the daemon's

Descriptor FD is closed when the daemon ends, and something is written to it once it serves.
"""

import os
import sys

if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    from dromon.engines.local.daemon import main

    sys.exit(main())
