"""`python -m benchmarks.yarnstart`: from submit to the first line of user code, on a warm cluster.

Beside it runs Hadoop's own distributed shell, whose master is a JVM. Both run the same command in
one container of the same bed, in turns; the command tells the time when it starts. The clock
begins when the client is called (`whole`), or when the ResourceManager took the application in
(`cluster`), which leaves the clients out. Ours runs with the environment shipped, as users have it.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Bar, side_by_side
from dromon.contexts.file import Context
from dromon.engines.base import token
from dromon.engines.yarn.engine import YarnEngine
from dromon.engines.yarn.manager import Manager

ROUNDS = 7


class Race:
    def __init__(self, folder: str) -> None:
        from testbeds.yarn.bed import Bed
        from testbeds.yarn.plan import Options

        self.folder = Path(folder)
        self.bed = Bed(f"{folder}/bed", tell=print)
        self.bed.up(Options())
        where = self.bed.plan.conf()
        self.engine = YarnEngine(Context("bed", "yarn", where), f"{folder}/home")
        self.manager = Manager(self.engine.cluster)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.spans: dict[str, list[float]] = {"ours": [], "shell": []}
        self._count = 0

    def ours(self) -> float:
        mark = self._mark()
        began = time.time()
        request = {
            "command": ["sh", "-c", f"date +%s.%N > {mark}.new && mv {mark}.new {mark}"],
            "options": {"name": "start", "resources": {"cpus": 1, "memory": "64MiB"}},
            "cwd": str(self.work),
            "environ": dict(os.environ),
            "python": sys.executable,
            "token": token(),
        }
        found = self.engine.start(request)
        return self._seconds("ours", mark, began, str(found["application"]))

    def shell(self) -> float:
        from testbeds.yarn import distributed_shell

        mark = self._mark()
        began = time.time()
        script = f"date +%s.%N > {mark}.new && mv {mark}.new {mark}"
        done = distributed_shell.run(self.bed, f"{script}")
        return self._seconds("shell", mark, began, done.id)

    def _mark(self) -> Path:
        self._count += 1
        return self.folder / f"mark-{self._count}"

    def _seconds(self, who: str, mark: Path, began: float, application: str) -> float:
        deadline = time.time() + 120
        while not mark.exists():
            if time.time() > deadline:
                raise TimeoutError(f"{who}: {application} did not start")
            time.sleep(0.02)
        first = float(mark.read_text())
        while not self.manager.report(application).is_terminal:
            time.sleep(0.05)
        self.spans[who].append(first - self.manager.report(application).submitted)
        return first - began

    def close(self) -> None:
        self.manager.close()
        self.engine.close()
        self.bed.down()


def bars(folder: str) -> list[Bar]:
    race = Race(folder)
    try:
        whole = side_by_side({"ours": race.ours, "shell": race.shell}, ROUNDS)
        cluster = {who: sorted(spans)[len(spans) // 2] for who, spans in race.spans.items()}
    finally:
        race.close()
    return [
        Bar("submit to the first line, beside distributed shell", ours["ours"] / ours["shell"],
            0.7, "of it", detail={"span": name, "ours s": ours["ours"], "theirs s": ours["shell"]})
        for name, ours in (("whole", whole), ("cluster", cluster))
    ]  # fmt: skip


def main() -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = tempfile.mkdtemp(prefix="dromon-bench-", dir="/tmp")
    try:
        found = bars(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for bar in found:
        print(bar.line(), flush=True)
    return 0 if all(bar.is_met for bar in found) else 1


if __name__ == "__main__":
    sys.exit(main())
