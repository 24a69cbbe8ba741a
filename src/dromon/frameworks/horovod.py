"""Horovod over Gloo: what horovodrun would set, and the rendezvous that it would serve.

Ranks meet at an HTTP key-value store: PUT and GET of /scope/key, 404 while a key is not there,
DELETE of a rank's own key when it has met the others. The first process of rank 0 serves it beside
the command.
"""

from typing import Dict, Tuple

from dromon.frameworks.framework import Command, Framework, one_port, rank_of, total
from dromon.frameworks.world import Member, World

RENDEZVOUS = """\
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

store = {}


class Store(BaseHTTPRequestHandler):
    def do_PUT(self):
        store[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200)

    def do_GET(self):
        self.answer(200 if self.path in store else 404, store.get(self.path, b""))

    def do_DELETE(self):
        self.answer(200)

    def answer(self, status, value=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, *words):
        pass


at = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
ThreadingHTTPServer(at, Store).serve_forever()
"""

# With the directory as $0.
LAUNCH = """\
trap : TERM INT
python "$0/rendezvous" &
server=$!
"$@"
code=$?
kill $server 2>/dev/null
exit $code
"""


def files(world: World, member: Member) -> Dict[str, str]:
    return {} if member.rank else {"rendezvous": RENDEZVOUS}


def command(
    world: World, member: Member, process: int, command: Command, directory: str
) -> Command:
    if member.rank or process:
        return command
    words = ["bash", "-c", command] if isinstance(command, str) else list(command)
    return ["sh", "-c", LAUNCH, directory, *words]


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    main = world.members[0]
    here = tuple(m for m in world.members if m.host == member.host)
    local = rank_of(here, member, process)
    hosts = _with_local_rank(world, local)
    return {
        "HOROVOD_HOSTNAME": member.host,
        "HOROVOD_RANK": str(rank_of(world.members, member, process)),
        "HOROVOD_SIZE": str(total(world.members)),
        "HOROVOD_LOCAL_RANK": str(local),
        "HOROVOD_LOCAL_SIZE": str(total(here)),
        "HOROVOD_CROSS_RANK": str(hosts.index(member.host)),
        "HOROVOD_CROSS_SIZE": str(len(hosts)),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": main.host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(main.ports[0]),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


def _with_local_rank(world: World, local: int) -> Tuple[str, ...]:
    """The hosts, in rank order, that have a process of this local rank."""
    hosts = dict.fromkeys(m.host for m in world.members)
    return tuple(h for h in hosts if total(m for m in world.members if m.host == h) > local)


HOROVOD = Framework(
    environment,
    reserved=frozenset(
        [
            "HOROVOD_HOSTNAME",
            "HOROVOD_RANK",
            "HOROVOD_SIZE",
            "HOROVOD_LOCAL_RANK",
            "HOROVOD_LOCAL_SIZE",
            "HOROVOD_CROSS_RANK",
            "HOROVOD_CROSS_SIZE",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR",
            "HOROVOD_GLOO_RENDEZVOUS_PORT",
            "HOROVOD_CONTROLLER",
            "HOROVOD_CPU_OPERATIONS",
        ]
    ),
    ports=one_port,
    files=files,
    command=command,
)
