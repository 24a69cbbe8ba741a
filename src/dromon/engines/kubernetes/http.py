"""One API server: questions and orders over HTTPS, its refusals in words.

What the objects mean is not known here. Threads may share an `Api`.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dromon.engines.kubernetes.access import Access
from dromon.engines.kubernetes.asking import Asker, Stream
from dromon.engines.kubernetes.refusals import ApiError, Gone, NotFound
from dromon.engines.kubernetes.volcano import POD, Kind
from dromon.engines.kubernetes.wire import Head

MANAGER = "dromon"  # who the server says changed a field
PAGE = 500  # objects in one answer
LARGE = 500_000  # bytes of an answer
JSON = "application/json"
NAMES = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}

Object = dict[str, Any]


class Api:
    """``timeout``: seconds for one read or write; ``patience``: how long a server that is away, or
    asks to be left alone, is asked again.
    """

    def __init__(self, access: Access, *, timeout: float = 30.0, patience: float = 30.0) -> None:
        self.access = access
        self._asker = Asker(access, timeout, patience)

    @property
    def verbs(self) -> dict[str, int]:
        """How often the server was asked, by verb; what was asked again counts again."""
        return dict(self._asker.verbs)

    @property
    def requests(self) -> int:
        """All of them, but watches."""
        return sum(count for verb, count in self.verbs.items() if verb != "watch")

    @property
    def connections(self) -> int:
        """How many were made so far."""
        return self._asker.connections.made

    def close(self) -> None:
        self._asker.close()

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- reading --------------------------------------------------------------------------------

    def get(self, path: str, **query: Any) -> Any:
        """What is at a path, such as `/version`."""
        return self._json("get", "GET", target_of(path, query))

    def read(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """One object; None where there is none."""
        try:
            return self._object("get", "GET", target_of(_path(kind, namespace, name)), kind)
        except NotFound as missing:
            if not missing.names_object:
                raise
            return None

    def list_names(self, kind: Kind, namespace: str, labels: str = "") -> Sequence[str]:
        """Their names alone, however large they are."""
        return [str(about["name"]) for about in self.list_metadata(kind, namespace, labels)]

    def list_metadata(self, kind: Kind, namespace: str, labels: str = "") -> Sequence[Object]:
        """What is said about them, and not what is in them."""
        target = target_of(_path(kind, namespace), {"labelSelector": labels})
        page = self._json("list", "GET", target, kind, accept=NAMES)
        return [item["metadata"] for item in page.get("items") or ()]

    def list(
        self,
        kind: Kind,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
        keep: Callable[[Object], Object] | None = None,
    ) -> list[Object]:
        """All of a namespace, or of all namespaces. ``keep`` trims each as its page is read."""
        found: list[Object] = []
        for number, page in self.pages(kind, namespace, labels, fields, limit):
            if number == 0:
                found = []
            found += trimmed(page, keep)
        return found

    def pages(
        self, kind: Kind, namespace: str = "", labels: str = "", fields: str = "", limit: int = PAGE
    ) -> Iterator[tuple[int, Object]]:
        """The lists with up to ``limit`` objects each. A number that is 0 again means that the
        server lost the place: all begins anew, in one page.
        """
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": limit or None}
        path = _path(kind, namespace)
        number, token = 0, ""
        while True:
            try:
                target = target_of(path, {**query, "continue": token})
                page = self._object("list", "GET", target, kind)
            except Gone:
                if not token:
                    raise
                query["limit"], number, token = None, 0, ""
                continue
            yield number, page
            token = str(page.get("metadata", {}).get("continue") or "")
            number += 1
            if not token:
                return

    # ---- changing -------------------------------------------------------------------------------

    def create(
        self,
        kind: Kind,
        namespace: str,
        body: Mapping[str, Any],
        dry_run: bool = False,
        repeatable: bool = False,
    ) -> Object:
        """``repeatable``: also when the answer was lost, and it may have been made; whoever asks
        so takes AlreadyExists for what it may mean.
        """
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "dryRun": _dry(dry_run)}
        return self._object(
            "create", "POST", target_of(_path(kind, namespace), query), kind,
            _typed(kind, body), repeatable=repeatable or dry_run,
        )  # fmt: skip

    def apply(
        self, kind: Kind, namespace: str, body: Mapping[str, Any], dry_run: bool = False
    ) -> Object:
        """Server-side apply: made, or changed to have what ``body`` says."""
        name = str(body["metadata"]["name"])
        query = {
            "fieldManager": MANAGER, "force": True, "fieldValidation": "Strict",
            "dryRun": _dry(dry_run),
        }  # fmt: skip
        target = target_of(_path(kind, namespace, name), query)
        return self._object("apply", "PATCH", target, kind, _typed(kind, body), PATCHES["apply"])

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        how: str = "merge",
        dry_run: bool = False,
        part: str = "",
    ) -> Object:
        """``how``: merge, json or strategic. ``part``: such as `status`."""
        path = _path(kind, namespace, name) + (f"/{part}" if part else "")
        target = target_of(path, {"fieldManager": MANAGER, "dryRun": _dry(dry_run)})
        # A list of JSON operations may not mean the same twice.
        return self._object(
            "patch", "PATCH", target, kind, body, PATCHES[how], repeatable=how != "json"
        )

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        grace: int | None = None,
        background: bool = True,
        uid: str = "",
    ) -> bool:
        """False: it was not there. ``uid``: this very one, else Conflict."""
        options = _deletion(grace, background)
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self._object("delete", "DELETE", target_of(_path(kind, namespace, name)), kind, options)
        except NotFound as missing:
            if not missing.names_object:
                raise
            return False
        return True

    def delete_all(
        self,
        kind: Kind,
        namespace: str,
        labels: str,
        grace: int | None = None,
        background: bool = True,
    ) -> int:
        """All that have these labels; how many there were."""
        if not labels:
            raise ValueError("all objects of a namespace are never meant")
        target = target_of(_path(kind, namespace), {"labelSelector": labels})
        options = _deletion(grace, background)
        answer = self._object("deletecollection", "DELETE", target, kind, options)
        return len(answer.get("items") or ())

    # ---- pods -----------------------------------------------------------------------------------

    def logs(
        self,
        namespace: str,
        pod: str,
        container: str = "",
        *,
        follow: bool = False,
        since: float | None = None,
        tail: int | None = None,
        timestamps: bool = False,
        previous: bool = False,
    ) -> Stream:
        """What a container printed, piece by piece. ``since``: seconds since 1970, rounded down.
        NotStarted: not yet.
        """
        query = {
            "container": container, "follow": follow, "timestamps": timestamps,
            "previous": previous, "tailLines": tail,
            "sinceTime": None if since is None else _stamp(since),
        }  # fmt: skip
        target = target_of(_path(POD, namespace, pod) + "/log", query)
        stream = self.stream("logs", target, POD)
        if follow:
            stream.patience(None)
        return stream

    def proxy(
        self,
        namespace: str,
        pod: str,
        port: int,
        method: str = "GET",
        path: str = "/",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """A page of a pod, through the API server: its status, headers and body, whatever they are.
        PodSilent: the pod does not answer there.
        """
        head, stream = self._proxied(namespace, pod, port, method, path, body, headers)
        return head.status, head.headers, b"".join(stream)

    def proxy_stream(
        self,
        namespace: str,
        pod: str,
        port: int,
        method: str = "GET",
        path: str = "/",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], Stream]:
        """The same, with a body that may never end."""
        head, stream = self._proxied(namespace, pod, port, method, path, body, headers)
        stream.patience(None)
        return head.status, head.headers, stream

    def _proxied(
        self,
        namespace: str,
        pod: str,
        port: int,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str] | None,
    ) -> tuple[Head, Stream]:
        base = _path(POD, namespace, f"{pod}:{port}")
        return self._asker.ask(
            "proxy", method, f"{base}/proxy{path}", POD, body,
            extra=list((headers or {}).items()), repeatable=method in ("GET", "HEAD"), foreign=True,
        )  # fmt: skip

    # ---- one request ----------------------------------------------------------------------------

    def stream(self, verb: str, target: str, kind: Kind | None) -> Stream:
        """An answer read as it comes."""
        return self._asker.ask(verb, "GET", target, kind)[1]

    def _object(
        self,
        verb: str,
        method: str,
        target: str,
        kind: Kind | None,
        body: Any = None,
        content: str = JSON,
        repeatable: bool = True,
    ) -> Object:
        found = self._json(verb, method, target, kind, body, content, repeatable)
        if not isinstance(found, dict):
            raise self._strange()
        return found

    def _json(
        self,
        verb: str,
        method: str,
        target: str,
        kind: Kind | None = None,
        body: Any = None,
        content: str = JSON,
        repeatable: bool = True,
        accept: str = JSON,
    ) -> Any:
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        wants = [("Accept", accept)]
        if data:
            wants.append(("Content-Type", content))
        _, stream = self._asker.ask(verb, method, target, kind, data, wants, repeatable, whole=True)
        try:
            return _parsed(stream.read())
        except ValueError:
            raise self._strange() from None

    def _strange(self) -> ApiError:
        return ApiError(
            f"{self.access.server.url} answers as no API server does",
            hint=f"Is the address in {self.access.words} right? A login page may be in front.",
        )


def _parsed(text: bytes) -> Any:
    """Large ones without the collector, which would go through them again and again meanwhile."""
    if len(text) < LARGE or not gc.isenabled():
        return json.loads(text)
    gc.disable()
    try:
        return json.loads(text)
    finally:
        gc.enable()


def trimmed(page: Object, keep: Callable[[Object], Object] | None) -> list[Object]:
    """The objects of a page without who manages which field, which is half of each."""
    items: list[Object] = page.get("items") or []
    for item in items:
        item.get("metadata", {}).pop("managedFields", None)
    return items if keep is None else [keep(item) for item in items]


# --- targets and bodies


def _path(kind: Kind, namespace: str, name: str = "") -> str:
    return kind.path(quoted(namespace), quoted(name))


def target_of(path: str, query: Mapping[str, Any] | None = None) -> str:
    """What is None, False or empty is not asked for."""
    given = "&".join(
        f"{key}={'true' if value is True else quoted(str(value))}"
        for key, value in (query or {}).items()
        if value is not None and value is not False and value != ""
    )
    return f"{path}?{given}" if given else path


_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:,")


def quoted(text: str) -> str:
    """As a part of a URL. (`urllib.parse` takes as long to load as a request takes.)"""
    return "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in text.encode())


def _typed(kind: Kind, body: Mapping[str, Any]) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def _dry(dry_run: bool) -> str:
    return "All" if dry_run else ""


def _deletion(grace: int | None, background: bool) -> Object:
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background" if background else "Foreground",
    }
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options


def _stamp(when: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
