"""How a client proves to a coordinator that it knows the job's key, for one request. No sockets."""

import hmac

HEADER = "Dromon-Proof"
MARK = "Dromon-Job"  # of every answer: what a proxy answers in our stead has none
FRESH = 300.0  # seconds that a proof is good for: clocks differ, and a proof seen is not for ever


def proof(key: bytes, method: str, path: str, body: bytes, now: float) -> str:
    """The header's value for this request."""
    said = f"{int(now)} {method} {path} ".encode() + body
    return f"{int(now)}:{hmac.new(key, said, 'sha256').hexdigest()}"


def is_proven(given: str, key: bytes, method: str, path: str, body: bytes, now: float) -> bool:
    moment, _, _ = given.partition(":")
    is_number = given.isascii() and moment.isdigit() and len(moment) < 16
    if not is_number or abs(now - int(moment)) > FRESH:
        return False
    return hmac.compare_digest(given, proof(key, method, path, body, float(moment)))
