"""The bed's own questions to its API server, as its administrator. Starts and stops nothing."""

import http.client
import json
import ssl
from typing import Any

from testbeds.kubernetes.plan import Plan

TIMEOUT = 10.0  # seconds for one answer


# One line for each server, kept between questions; whoever uses it takes it out meanwhile.
_kept: dict[str, http.client.HTTPSConnection] = {}


class NotYet(Exception):
    """It does not answer as it should; the text says what is missing."""


def get(plan: Plan, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call(plan, "GET", path))
    return answer


def items(plan: Plan, path: str) -> list[dict[str, Any]]:
    return list(get(plan, path)["items"])


def apply(plan: Plan, path: str, content: dict[str, Any] | bytes) -> None:
    """Makes it, or makes it so. YAML is taken as it is."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    where = f"{path}?fieldManager=testbed&force=true"
    call(plan, "PATCH", where, body, "application/apply-patch+yaml")


def patch_status(plan: Plan, path: str, operations: list[dict[str, Any]]) -> None:
    body = json.dumps(operations).encode()
    call(plan, "PATCH", f"{path}/status", body, "application/json-patch+json")


def call(plan: Plan, method: str, path: str, body: bytes | None = None, kind: str = "") -> bytes:
    headers = {"Accept": "application/json, */*", **({"Content-Type": kind} if kind else {})}
    for line in (_kept.pop(plan.dir, None), None):
        again = line is not None  # a line from before may be dead by now
        line = line or _line(plan)
        try:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            line.close()
            if again:
                continue
            raise NotYet(f"does not answer ({error})") from None
        _kept[plan.dir] = line
        if answer.status >= 300:
            text = said[:400].decode(errors="replace")
            raise NotYet(f"answers {answer.status} to {method} {path}: {text}")
        return said
    raise AssertionError("the second line is new")


def _line(plan: Plan) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=plan.conf("ca.crt"))
    context.load_cert_chain(plan.conf("admin.crt"), plan.conf("admin.key"))
    return http.client.HTTPSConnection(plan.control, 443, timeout=TIMEOUT, context=context)
