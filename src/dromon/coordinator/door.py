"""Who may speak for a member: the proof of both sides when an agent connects. No sockets.

A connection starts here and is handed to its job's coordinator once the agent has shown that it
knows the job's key.
"""

from typing import Callable, NamedTuple, Optional

from dromon.agent.frames import Message
from dromon.agent.protocol import VERSION, is_proof, proof


class Admitted(NamedTuple):
    job: str
    member: str
    run: int
    welcome: Message
    place: str = ""


class Door:
    """The first words of one connection."""

    def __init__(self, nonce: str, key_of: Callable[[str], Optional[bytes]], epoch: int) -> None:
        self._nonce = nonce
        self._key_of = key_of
        self._epoch = epoch

    def challenge(self) -> Message:
        return {"op": "challenge", "nonce": self._nonce, "version": VERSION}

    def admit(self, message: Message) -> Optional[Admitted]:
        """None: not an agent of ours; hang up and say nothing."""
        try:
            job, member, run = str(message["job"]), str(message["member"]), int(message["run"])
            nonces = (self._nonce, str(message["nonce"]))
            mac = str(message["mac"])
        except (KeyError, TypeError, ValueError):
            return None
        key = self._key_of(job) if message.get("op") == "hello" else None
        if key is None or not is_proof(mac, key, "agent", nonces):
            return None
        answer = proof(key, "coordinator", nonces)
        welcome: Message = {"op": "welcome", "mac": answer, "epoch": self._epoch}
        return Admitted(job, member, run, welcome, str(message.get("place", "")))
