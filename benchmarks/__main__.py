"""`make bench`: every bar beside what was measured, on this machine, in this run.

Exits with 1 when a bar is missed. Writes benchmarks/results.json.
"""

import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path


def main() -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = tempfile.mkdtemp(prefix="dromon-bench-", dir="/tmp")
    os.environ["DROMON_HOME"] = os.path.join(folder, "home")
    work = os.path.join(folder, "work")
    os.mkdir(work)
    os.chdir(work)  # an empty working directory

    from benchmarks import bars, interpreter, scheduling, simulation
    from dromon import api

    wanted = sys.argv[1:]
    there_are = {**bars.ALL, **interpreter.pure(scheduling, simulation)}
    found = []
    try:
        for name in wanted:
            if name not in there_are:
                print(f"no benchmark is called {name}; there are: {', '.join(there_are)}")
                return 2
        for name, measure in there_are.items():
            if wanted and name not in wanted:
                continue
            for bar in measure(folder):
                print(bar.line(), flush=True)
                found.append(bar)
    finally:
        api.daemon("stop")
        shutil.rmtree(folder, ignore_errors=True)
    missed = [bar.what for bar in found if not bar.is_met]
    results = {
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "bars": [{**vars(bar), "met": bar.is_met} for bar in found],
    }
    if not wanted:
        path = Path(__file__).with_name("results.json")
        path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{len(found) - len(missed)} of {len(found)} bars met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
