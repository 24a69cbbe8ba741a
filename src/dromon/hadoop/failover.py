"""After a failure: wait how long, then ask whom? Pure: clock and chance are arguments.

The transport tells what happened as a ``Trouble``; for an error the server itself reported,
``trouble_of`` knows which Java exceptions mean what.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Trouble(enum.Enum):
    """What went wrong, as far as trying again is concerned."""

    UNREACHED = "unreached"  # refused, no route, timed out, name unknown: nothing was asked
    STANDBY = "standby"  # the server is there, but another one is active
    BUSY = "busy"  # the server asks for patience: starting, safe mode, throttled
    LOST = "lost"  # the connection broke with the call under way: it may have been done
    REFUSED = "refused"  # understood and refused, or not to be understood: no use in asking again


STANDBY = frozenset(
    {
        "org.apache.hadoop.ipc.StandbyException",
        "org.apache.hadoop.ipc.ObserverRetryOnActiveException",
    }
)
BUSY = frozenset(
    {
        "org.apache.hadoop.ipc.RetriableException",
        "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
        "org.apache.hadoop.yarn.exceptions.NMNotYetReadyException",
    }
)


def trouble_of(exception: str) -> Trouble:
    """What a Java exception of the server means for trying again."""
    if exception in STANDBY:
        return Trouble.STANDBY
    return Trouble.BUSY if exception in BUSY else Trouble.REFUSED


@dataclass(frozen=True)
class Retry:
    """Ask the server at ``server`` (an index) after ``wait`` seconds."""

    wait: float
    server: int


@dataclass(frozen=True)
class GiveUp:
    """In words, for the message."""

    reason: str


@dataclass(frozen=True)
class Policy:
    """``patience``: seconds after which nobody is asked again. Hadoop's own clients take 900."""

    base: float = 0.5
    cap: float = 15.0
    patience: float = 900.0

    def after(
        self,
        trouble: Trouble,
        *,
        failures: int,
        server: int,
        servers: int,
        elapsed: float,
        chance: float,
        repeatable: bool = True,
    ) -> Retry | GiveUp:
        """What to do after the ``failures``-th failure in a row (1 is the first).

        ``server`` of ``servers`` was asked; ``elapsed`` seconds have passed since the first time;
        ``chance`` is a random number from 0 to 1; ``repeatable``: asking twice does no harm.
        """
        if trouble is Trouble.REFUSED:
            return GiveUp("refused")
        if trouble is Trouble.LOST and not repeatable:
            return GiveUp("the connection broke; whether it was done is not known")
        moves = trouble in (Trouble.UNREACHED, Trouble.STANDBY, Trouble.LOST)
        following = (server + 1) % servers if moves else server
        if moves and failures < servers:
            return Retry(0.0, following)  # everybody is asked once, however short the patience
        rounds = (failures - 1) // servers if moves else failures - 1
        wait = min(self.cap, self.base * 2 ** min(rounds, 30)) * (0.5 + chance / 2)
        if moves and failures % servers:
            wait = 0.0  # somebody has not been asked yet in this round
        if elapsed + wait > self.patience:
            return GiveUp(f"no answer for {elapsed:.0f} s")
        return Retry(wait, following)
