"""`kubernetes:` of a job file: read, and refused in words where it says nothing. Pure."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dromon.errors import Refused
from dromon.spec.words import choice as one_of
from dromon.spec.words import told
from dromon.units import parse_duration

KEYS = (
    "annotations", "job", "labels", "pod", "python", "read_only_root", "roles", "secret",
    "service_account", "ttl",
)  # fmt: skip
ROLE_KEYS = ("pod",)
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VALUE = re.compile(f"(?:{_PART})?")
_KEY = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?{_PART}")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
LABEL_LIMIT = 63


@dataclass(frozen=True)
class Hatches:
    pod: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # role -> its `pod`
    python: str = ""
    secret: str = ""  # an existing Secret, for the values of secrets and of null env
    read_only_root: bool = False
    service_account: str = ""
    ttl: int | None = None  # seconds


def read(data: Mapping[str, Any], roles: Iterable[str]) -> Hatches:
    """What stands under `kubernetes:` of a job with these roles."""
    _known("kubernetes", data, KEYS)
    own = _mapping("kubernetes.roles", data.get("roles", {}))
    _known("kubernetes.roles", own, tuple(roles), "role")
    for role, keys in own.items():
        _known(f"kubernetes.roles.{role}", _mapping(f"kubernetes.roles.{role}", keys), ROLE_KEYS)
    return Hatches(
        pod=_mapping("kubernetes.pod", data.get("pod", {})),
        job=_mapping("kubernetes.job", data.get("job", {})),
        labels=_labels(_mapping("kubernetes.labels", data.get("labels", {}))),
        annotations=_annotations(_mapping("kubernetes.annotations", data.get("annotations", {}))),
        roles={
            role: _mapping(f"kubernetes.roles.{role}.pod", keys.get("pod", {}))
            for role, keys in own.items()
        },
        python=_text("python", data.get("python", "")),
        secret=_object_name("secret", data.get("secret", "")),
        read_only_root=_truth("read_only_root", data.get("read_only_root", False)),
        service_account=_object_name("service_account", data.get("service_account", "")),
        ttl=_ttl(data.get("ttl")),
    )


def label_value(text: str) -> str:
    """Any text as the value of a label."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:LABEL_LIMIT]
    return clean.strip("._-")


def is_object_name(text: str) -> bool:
    return len(text) <= 253 and _NAME.fullmatch(text) is not None and ".." not in text


def _known(place: str, data: Mapping[str, Any], known: tuple[str, ...], what: str = "") -> None:
    for key in data:
        if key not in known:
            raise Refused(
                f"{place}.{key}: there is no such {what or 'setting'}",
                hint=f"{_capital(one_of(key, known))}",
            )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")


def _mapping(place: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Refused(f"{place}: expected a mapping, got {told(value)}", hint="Write key: value.")
    return value


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Refused(f"kubernetes.{key}: expected a text, got {told(value)}", hint="Quote it.")
    return value


def _truth(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"kubernetes.{key}: expected true or false, got {told(value)}",
                      hint="Write true or false.")  # fmt: skip
    return value


def _object_name(key: str, value: Any) -> str:
    if _text(key, value) and not is_object_name(value):
        raise Refused(
            f"kubernetes.{key}: {value!r} is no name of an object",
            hint="Names have small letters, digits, dashes and dots.",
        )
    return str(value)


def _labels(labels: Mapping[str, Any]) -> dict[str, str]:
    for key, value in labels.items():
        named = _KEY.fullmatch(key) and len(key.rpartition("/")[2]) <= LABEL_LIMIT
        if not named or not isinstance(value, str) or not is_label_value(value):
            raise Refused(
                f"kubernetes.labels: {key}: {told(value)} is no label",
                hint="At most 63 letters, digits, dashes, dots and underscores, as a text.",
            )
    return dict(labels)


def is_label_value(value: str) -> bool:
    return len(value) <= LABEL_LIMIT and _VALUE.fullmatch(value) is not None


def _annotations(annotations: Mapping[str, Any]) -> dict[str, str]:
    for key, value in annotations.items():
        if not isinstance(value, str) or not _KEY.fullmatch(key):
            raise Refused(f"kubernetes.annotations: {key}: expected a text, got {told(value)}",
                          hint='Quote it: "true".')  # fmt: skip
    return dict(annotations)


def _ttl(value: Any) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        return math.ceil(parse_duration(value))
    except (ValueError, OverflowError):
        raise Refused(f"kubernetes.ttl: expected a duration, got {told(value)}",
                      hint="Write for example ttl: 1d.") from None  # fmt: skip
