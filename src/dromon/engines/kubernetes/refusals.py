"""What an API server refuses, in words: its answer (a Status object, or none) -> one error.

    ApiError                  it answered, and not with what was asked
    ├── NotAllowed            403: who may not do what, and where
    │   └── OverQuota         403: a ResourceQuota of the namespace is used up
    ├── NotAuthenticated      401: it does not know us
    │   └── Expired           ... any more
    ├── NotFound              404: an object, or the namespace it should be in
    │   ├── NoSuchKind        404: the server knows nothing of that kind
    │   └── NoVolcano         404: ... and it is one of Volcano's
    ├── AlreadyExists         409
    ├── Conflict              409: changed by somebody else meanwhile, or not the one meant
    ├── Gone                  410: a resourceVersion or page that is no more kept
    ├── Invalid               400, 413, 422, or denied by a webhook
    ├── NotStarted            400: a container that has no log yet
    ├── PodSilent             a pod asked through the API server does not answer
    └── Unreachable           no answer, or none of use, for as long as we were patient

Pure: nothing is asked and nothing read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dromon.engines.kubernetes.volcano import Kind
from dromon.errors import EngineError


class ApiError(EngineError):
    """The API server refused."""

    def __init__(
        self,
        message: str = "",
        *,
        hint: str | None = None,
        code: int = 0,
        status: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.status: dict[str, Any] = dict(status or {})

    @property
    def reason(self) -> str:
        """Kubernetes' own word for it, such as `NotFound`."""
        return str(self.status.get("reason") or "")


class NotAllowed(ApiError):
    """You may not do that here."""


class OverQuota(NotAllowed):
    """The namespace's quota is used up."""

    hint = "`kubectl describe resourcequota` shows the limits; wait, ask for less, or for more."


class NotAuthenticated(ApiError):
    """The API server does not know who you are."""


class Expired(NotAuthenticated):
    """The credentials have expired."""


class NotFound(ApiError):
    """It is not there."""

    @property
    def names_object(self) -> bool:
        """It was looked for by name: the kind is known, its namespace too or not told of."""
        details = self.status.get("details") or {}
        return bool(details.get("name")) and details.get("kind") != "namespaces"


class NoSuchKind(NotFound):
    """This cluster has no objects of that kind."""


class NoVolcano(NotFound):
    """This cluster has no Volcano."""

    hint = (
        "Jobs of one pod run without it. For gangs, ask the administrator to install Volcano"
        " (`dromon cluster render volcano` makes its configuration)."
    )


class AlreadyExists(ApiError):
    """There is one of that name."""


class Conflict(ApiError):
    """Somebody else changed it meanwhile."""


class Gone(ApiError):
    """What was asked for is no longer kept."""


class Invalid(ApiError):
    """The cluster does not accept it."""


class NotStarted(ApiError):
    """The container has not started."""


class PodSilent(ApiError):
    """The pod does not answer."""


class Unreachable(ApiError):
    """The API server does not answer."""


def refusal(
    code: int, status: Mapping[str, Any] | None, text: str = "", kind: Kind | None = None
) -> ApiError:
    """The error for an answer. ``status``: the Status object of its body, None where it was none;
    ``text``: that body, for its words. ``kind``: what was asked for.
    """
    said = str((status or {}).get("message") or text.strip() or f"error {code}")
    reason = str((status or {}).get("reason") or "")
    given: dict[str, Any] = {"code": code, "status": status}
    if denied := re.search(_DENIED, said, re.DOTALL):
        return Invalid(_denial(denied), hint=_denial_hint(denied), **given)
    if code == 401:
        return NotAuthenticated("the API server does not know who you are", **given)
    if code == 403:
        return _forbidden(said, given)
    if code == 404:
        return _not_found(said, status, kind, given)
    if code == 409:
        which = AlreadyExists if reason == "AlreadyExists" else Conflict
        return which(_already(said, status), **given)
    if code == 410:
        return Gone(said, **given)
    if code == 400 and "waiting to start" in said:
        return NotStarted(said, **given)
    if code in (400, 413, 422):
        return Invalid(_invalid(said, status), **given)
    return ApiError(f"the API server answers {code}: {plain(said)}", **given)


# --- 403

_CANNOT = (
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) (?:resource "(?P<resource>[^"]*)" in API group '
    r'"(?P<group>[^"]*)"|path "(?P<path>[^"]*)")(?P<where>.*)'
)
_NAMESPACE = r'in the namespace "([^"]*)"'
_FORBIDDEN = r'^\S+ "(?P<name>[^"]*)" is forbidden: (?P<why>.*)'


def _forbidden(said: str, given: dict[str, Any]) -> ApiError:
    if cannot := re.search(_CANNOT, said):
        return _no_right(cannot, given)
    inner = re.search(_FORBIDDEN, said, re.DOTALL)
    why = inner["why"] if inner else said
    if why.startswith("exceeded quota:"):
        return OverQuota(_quota(why), **given)
    if why.startswith("violates PodSecurity"):
        return Invalid(
            f"the namespace's security rules do not allow it: {plain(why)}",
            hint="Ask for less in `kubernetes: pod:`, or use another namespace.",
            **given,
        )
    if "because it is being terminated" in why:
        return NotAllowed("the namespace is being deleted", hint="Use another namespace.", **given)
    return NotAllowed(plain(said), **given)


def _no_right(cannot: re.Match[str], given: dict[str, Any]) -> NotAllowed:
    user, verb = cannot["user"], cannot["verb"]
    if cannot["path"] is not None:
        return NotAllowed(f"{user} may not {verb} {cannot['path']}", **given)
    found = re.search(_NAMESPACE, cannot["where"])
    where = f"in namespace {found[1]}" if found else "in the whole cluster"
    # Kubernetes asks about "pods/log"; people say it so too.
    rule = f'apiGroups: ["{cannot["group"]}"], resources: [{cannot["resource"]}], verbs: [{verb}]'
    binding = f"a Role in namespace {found[1]}" if found else "a ClusterRole"
    return NotAllowed(
        f"{user} may not {verb} {cannot['resource']} {where}",
        hint=f"Ask the administrator for {binding} with {{{rule}}}, bound to {user}.",
        **given,
    )


_QUOTA = r"exceeded quota: (\S+), requested: (.*), used: (.*), limited: (.*)"


def _quota(why: str) -> str:
    if parts := re.search(_QUOTA, why):
        name, requested, used, limited = parts.groups()
        return (
            f"quota {name} of the namespace is used up: {requested} asked for, {used} in use,"
            f" {limited} allowed"
        )
    return f"the namespace's quota does not allow it: {plain(why)}"


# --- 404


def _not_found(
    said: str, status: Mapping[str, Any] | None, kind: Kind | None, given: dict[str, Any]
) -> ApiError:
    details = (status or {}).get("details") or {}
    name = details.get("name")
    if name and details.get("kind") == "namespaces":
        return NotFound(
            f"there is no namespace {name}",
            hint="Name one that exists: `kubectl get namespaces` lists them.",
            **given,
        )
    if name:
        return NotFound(f"there is no {kind.name if kind else details.get('kind')} {name}", **given)
    # An answer that names no object is about the whole group, or the plural.
    if kind is None:
        return NotFound(plain(said), **given)
    if kind.group.endswith("volcano.sh"):
        return NoVolcano(f"this cluster has no Volcano: it knows no {kind.api_version}", **given)
    return NoSuchKind(f"this cluster has no {kind.name} ({kind.api_version})", **given)


# --- 409


def _already(said: str, status: Mapping[str, Any] | None) -> str:
    details = (status or {}).get("details") or {}
    if (status or {}).get("reason") == "AlreadyExists" and details.get("name"):
        return f"{details.get('kind', 'one')} {details['name']} exists already"
    return plain(said)


# --- 400, 422 and denials

_DENIED = (
    r'admission webhook "(?P<webhook>[^"]+)" denied the request'
    r"(?: without explanation|: (?P<why>.*))"
    r"|ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding '[^']+' denied request: "
    r"(?P<rule>.*)"
)


def _denial(denied: re.Match[str]) -> str:
    who = denied["webhook"] or denied["policy"]
    why = plain(denied["why"] or denied["rule"] or "it gives no reason")
    return f"{who} denies it: {why}"


def _denial_hint(denied: re.Match[str]) -> str:
    if (denied["webhook"] or "").endswith("volcano.sh"):
        return "Volcano checks jobs and queues; `dromon plan` shows what it was given."
    return "A rule of this cluster, not of Dromon: its administrator knows what it wants."


_DECODING = r"strict decoding error: (.*)"


def _invalid(said: str, status: Mapping[str, Any] | None) -> str:
    causes = ((status or {}).get("details") or {}).get("causes") or ()
    words = [
        ("" if cause.get("field") == "[]" else f"{cause['field']}: ")
        + _without_dump(str(cause.get("message", "")))
        for cause in causes
        if isinstance(cause, dict) and cause.get("field") not in (None, "", "<nil>")
    ]
    if words:
        return "; ".join(dict.fromkeys(words))
    if decoding := re.search(_DECODING, said, re.DOTALL):
        return plain(decoding[1]).replace('"', "`")
    return _without_dump(plain(said))


_VALUE = r"^(?P<start>.*?Invalid value: )(?P<value>.+): (?P<why>[^:].*)$"
_GO = r"^(\"\{|\{|map\[|\[\]|&?[\w.]+\{|\"?object\"?$)"
_LONG = 120


def _without_dump(said: str) -> str:
    """`Invalid value: core.PodSpec{Volumes:…}: must not` -> `must not`."""
    parts = re.match(_VALUE, said, re.DOTALL)
    if parts is None:
        return plain(said)
    if re.match(_GO, parts["value"]) or len(parts["value"]) > _LONG:
        ahead = parts["start"].removesuffix("Invalid value: ")
        return plain(ahead + parts["why"])
    return plain(f"{parts['start']}{parts['value']}: {parts['why']}")


def plain(said: str) -> str:
    """On one line, and not without an end."""
    line = " ".join(said.split())
    return line if len(line) <= 2000 else line[:2000] + " …"
