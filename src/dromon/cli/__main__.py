"""`python -m dromon.cli`."""

import sys

from dromon.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
