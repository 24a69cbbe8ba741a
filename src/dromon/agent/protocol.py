"""What agent and coordinator say to each other, and how each proves that it knows the job's key.

Frames of `frames`. The agent connects; either side may be restarted and the talk goes on.

    coordinator  challenge  nonce
    agent        hello      job member run place nonce mac epoch
                                                  mac = HMAC(key, "agent" + nonces)
    coordinator  welcome    mac epoch                   mac = HMAC(key, "coordinator" + nonces)
    agent        ready      host ports            at the barrier
    coordinator  world      world                 World.to_json(): the barrier is open, start
    agent        started    pid                   unless it ends at once, in silence
    agent        beat       memory cpu gpu        every few seconds
    agent        saved      ago                   seconds since its work was saved; said again
    agent        alive      asked                 where it has a lease, several times in it
    coordinator  alive      asked                 the answer, which renews the lease
    coordinator  stop       grace reason          please end
    agent        exited     exit [stays]          Exit.to_json(); sent until acknowledged
    coordinator  again      run attempt           start over in place: reserve, ready, …
    coordinator  bye                              the exit is on record; the agent may leave

All the agent says names its `run`, so that nothing is taken for the word of another run. After a
reconnect the agent says hello and repeats its last state (ready, started or exited). `ready` may
follow `hello` at once, without waiting for the welcome. `bye` before the exit means: end, then
leave without a word.

A lease counts from the moment the agent asked (by its own clock), not from when it heard: an answer
may be long on its way, and whoever gave it counts from when it was given. No other word renews it.

An agent that was forked with a line to its coordinator (see `launcher`) needs no proof on it: it
starts with `ready`, or, launched `at_once`, without a word, since its `world` follows. When it
`stays`, its exit is on disk and it is there for another run: a `launch` with a plan then follows
on that line, and the coordinator need not say `bye` before it. What the agent knows from its last
launch is not said again: of a plan only what differs, and of the same world only `world`. An agent
whose line is cut connects as above, and does not stay.

Where agents stay in place between runs (see `coordinator`), an agent may come without a run: it
says hello with run 0, has no state, and waits. `again` with a later run ends what still runs and
begins that one; with the run it has, or an earlier one, it was said before. An agent whose own
place is taken away (SIGTERM) ends its member, says so, and does not begin again.
"""

import hmac
from typing import Tuple

VERSION = 1


def proof(key: bytes, side: str, nonces: Tuple[str, str]) -> str:
    """What only somebody with the key can say for these nonces (the coordinator's, the agent's)."""
    return hmac.new(key, f"{side}:{nonces[0]}:{nonces[1]}".encode(), "sha256").hexdigest()


def is_proof(mac: str, key: bytes, side: str, nonces: Tuple[str, str]) -> bool:
    return hmac.compare_digest(mac, proof(key, side, nonces))
