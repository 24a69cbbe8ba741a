"""What new beds of one Hadoop and one Java begin with, made once: by a bed brought up for that.

~/.cache/dromon/testbeds/hadoop-VERSION-java-VERSION/name          an empty file system
~/.cache/dromon/testbeds/hadoop-VERSION-java-VERSION/classes.jsa   the classes that daemons load, as
                                                                   Java maps them into memory
"""

import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from testbeds import cache
from testbeds.yarn.jvm import Jvm

Rehearse = Callable[[Jvm, Path], None]  # with that Java; its new file system goes to the path


@dataclass(frozen=True)
class Groundwork:
    place: Path

    @property
    def archive(self) -> Path | None:
        """A Java of another kind makes none. Daemons start without it too, only later."""
        made = self.place / "classes.jsa"
        return made if made.exists() else None

    def found(self, names: str) -> None:
        """An empty file system, to which daemons of any other are strangers."""
        shutil.copytree(self.place / "name", names)
        version = Path(names, "current", "VERSION")
        own = f"clusterID=CID-{uuid.uuid4()}"
        version.write_text(re.sub("(?m)^clusterID=.*$", own, version.read_text()))


def laid(jvm: Jvm, rehearse: Rehearse, tell: Callable[[str], None]) -> Groundwork:
    def make(scratch: Path) -> Path:
        made, listed = scratch / "made", scratch / "listed"
        made.mkdir()
        listed.mkdir()
        tell(f"preparing for beds of Hadoop {jvm.hadoop} on Java {jvm.java.version}, once")
        rehearse(replace(jvm, listed=listed), made / "name")
        classes = scratch / "classes"
        classes.write_text(merged(path.read_text() for path in sorted(listed.iterdir())))
        subprocess.run(
            jvm.dump(classes, made / "classes.jsa"), cwd=scratch, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return made

    return Groundwork(cache.made(f"hadoop-{jvm.hadoop}-java-{jvm.java.version}", make))


def merged(lists: Iterable[str]) -> str:
    """Each class once; what is loaded by several daemons stands where the first of them had it."""
    lines = dict.fromkeys(line for each in lists for line in each.splitlines())
    return "\n".join(lines) + "\n"
