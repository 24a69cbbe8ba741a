"""Members that nobody has heard of for so long that they have surely ended. No clock, no sockets.

An agent ends its member when it has not heard from its coordinator for the lease, within the grace.
Who is silent for both together is over, wherever it was, whether it can say so or not.
"""

from typing import Dict, Iterable, List

MARGIN = 10.0  # seconds for signals, for what is written at the end, and for a busy machine
ASLEEP = 10.0  # seconds between two looks after which it was this coordinator that was away


class Leases:
    def __init__(self, lease: float, grace: float) -> None:
        self._allowed = lease + grace + MARGIN
        self._heard: Dict[str, float] = {}
        self._looked = 0.0

    def hear(self, member: str, now: float) -> None:
        self._heard[member] = now

    def over(self, live: Iterable[str], now: float) -> List[str]:
        """Of these members those whose lease and grace are over. To be asked often, after all that
        was said has been heard: who was away itself knows nothing of the others' silence."""
        away, self._looked = now - self._looked, now
        live = list(live)
        if away > ASLEEP or away < 0:
            self._heard = dict.fromkeys(live, now)
        self._heard = {member: self._heard.get(member, now) for member in live}
        return [member for member in live if now - self._heard[member] > self._allowed]

    def silence(self, member: str, now: float) -> float:
        return now - self._heard.get(member, now)
