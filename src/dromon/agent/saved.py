"""When a member's work was last saved: by its own word, else by what changed in the folder for it.

The word is a file in the member's directory, touched by `context().checkpointed()`. Programs that
do not say it are known by the newest change in $DROMON_CHECKPOINT_DIR, two levels deep.
"""

import os
from typing import Iterator, Optional

WORD = "saved"
SETTLED = 1.0  # seconds; what changed more recently is still being written
MOST = 1000  # entries looked at


class Saved:
    """`checkpoints` is looked at by one member of a gang only: it is the same for all."""

    def __init__(self, directory: str, checkpoints: Optional[str]) -> None:
        self._word = os.path.join(directory, WORD)
        self._checkpoints = checkpoints
        self.at: Optional[float] = None  # as the files' clock has it

    def look(self, now: float) -> bool:
        """Whether it is later than at the last look."""
        found = _changed(self._word)
        if found is None and self._checkpoints is not None:
            found = max(_changes(self._checkpoints), default=None)
            if found is not None and found > now - SETTLED:
                return False
        if found is None or (self.at is not None and found <= self.at):
            return False
        self.at = found
        return True


def _changes(folder: str) -> Iterator[float]:
    left = MOST
    for level in (folder, *_folders(folder)):
        try:
            with os.scandir(level) as entries:
                for entry in entries:
                    if entry.is_file():
                        yield entry.stat().st_mtime
                    left -= 1
                    if not left:
                        return
        except OSError:  # thrown away meanwhile
            pass


def _folders(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return
    yield from found


def _changed(path: str) -> Optional[float]:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
