"""The bed's own questions to its API server, as its administrator. Starts and stops nothing."""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from testbeds.kubernetes.plan import Plan

TIMEOUT = 10.0  # seconds for one answer


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
    request = urllib.request.Request(f"{plan.server}{path}", data=body, method=method)
    request.add_header("Accept", "application/json, */*")
    if kind:
        request.add_header("Content-Type", kind)
    try:
        with _opener(plan).open(request, timeout=TIMEOUT) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            said = error.read()[:400].decode(errors="replace")
            raise NotYet(f"answers {error.code} to {method} {path}: {said}") from None
    except (urllib.error.URLError, OSError) as error:
        raise NotYet(f"does not answer ({getattr(error, 'reason', error)})") from None


def _opener(plan: Plan) -> urllib.request.OpenerDirector:
    context = ssl.create_default_context(cafile=plan.conf("ca.crt"))
    context.load_cert_chain(plan.conf("admin.crt"), plan.conf("admin.key"))
    # No proxy of this machine's stands between it and itself.
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
