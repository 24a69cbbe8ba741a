"""What TensorBoard's container runs: the event files of all members, fetched from the record again
and again, and TensorBoard over them.

    python -I -S light.pyz yarn-tensorboard

Where it listens is written to the record; the master's web page passes requests on to it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time

from dromon.engines.yarn.am.checkpoints import Checkpoints
from dromon.engines.yarn.am.launch import REQUEST
from dromon.engines.yarn.am.member import address
from dromon.engines.yarn.am.scribe import Scribe
from dromon.engines.yarn.am.secrets import load_secrets
from dromon.errors import DromonError
from dromon.hadoop.webhdfs import WebHdfs

EVERY = 10.0  # seconds between two looks for new events
FILE = "tensorboard.json"
PREFIX = "/tensorboard"


def main() -> int:
    with open(REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    cluster = request["cluster"]
    hdfs = WebHdfs(cluster["webhdfs"], cluster["user"], load_secrets().hdfs_token)
    events = os.path.abspath("events")
    fetched = Checkpoints(events, f"{cluster['record']}/tensorboard", hdfs)
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    python = request["python"]
    words = [os.path.abspath(python) if "/" in python else python, "-m", "tensorboard.main"]
    options = ["--logdir", events, "--host", "0.0.0.0", "--port", str(port)]
    os.makedirs(events, exist_ok=True)
    board = subprocess.Popen([*words, *options, "--path_prefix", PREFIX, "--reload_interval", "10"])
    signal.signal(signal.SIGTERM, lambda *_: board.terminate())
    url = f"http://{address(request, os.environ['NM_HOST'])}:{port}"
    Scribe(hdfs, str(cluster["record"])).write_now(FILE, {"url": url})
    threading.Thread(target=_keep_fetching, args=(fetched,), daemon=True).start()
    return board.wait()


def _keep_fetching(fetched: Checkpoints) -> None:
    while True:
        try:
            fetched.fetch()
        except (OSError, DromonError):
            pass  # the next look tries again
        time.sleep(EVERY)
