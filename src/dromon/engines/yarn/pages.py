"""The ResourceManager's web pages, read only: its configuration (`/conf`) and its REST answers.

RPC says more and is asked first; the pages have what RPC lacks: the settings of the server, the
limits of a queue, and why an application is passed over. They may be closed to us, so nothing here
is more than a help: whoever asks says what to do without.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

from dromon.errors import EngineError
from dromon.hadoop.site import Site

REST = "/ws/v1/cluster"
PATIENCE = 10.0  # seconds for one answer


class PageFailed(EngineError):
    """A web page of the ResourceManager could not be read."""


# A proxy of the environment is for the way out, and RPC to the same hosts takes none either.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Pages:
    """``webs``: the addresses of the ResourceManagers' pages, any order. One that answers will do.

    A standby sends us on to the active one by itself, or has nothing to say.
    """

    def __init__(self, webs: Sequence[str], user: str = "") -> None:
        self._webs = tuple(web.rstrip("/") for web in webs)
        self._user = user

    def conf(self) -> Site:
        """The settings the ResourceManager runs with, defaults included."""
        return parse_conf(self._text("/conf", {}, "application/xml"))

    def rest(self, path: str, **query: str) -> Any:
        """A REST answer: ``rest("/scheduler")``. Which keys it has depends on the version."""
        named = {"user.name": self._user, **query} if self._user else query
        text = self._text(REST + path, named, "application/json")
        try:
            return json.loads(text)
        except ValueError:
            raise PageFailed(f"{self._webs[0]}{REST}{path} is not JSON") from None

    def _text(self, path: str, query: dict[str, str], kind: str) -> str:
        failures: list[str] = []
        for web in self._webs:
            try:
                return fetch(f"{web}{path}?{urlencode(query)}" if query else web + path, kind)
            except PageFailed as failed:
                failures.append(str(failed))
        raise PageFailed("; ".join(failures))


def fetch(url: str, kind: str) -> str:
    """One page as text, or PageFailed in words."""
    request = urllib.request.Request(url, headers={"Accept": kind})
    try:
        with _direct.open(request, timeout=PATIENCE) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        text = error.read(2000).decode("utf-8", "replace")
        if "Hadoop IPC port" in text:
            raise PageFailed(f"{url} is an RPC port, not a web page") from None
        if error.code == 401 and "negotiate" in error.headers.get("WWW-Authenticate", "").lower():
            raise PageFailed(f"{url} wants Kerberos, which Dromon cannot do yet") from None
        raise PageFailed(f"{url} answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        reason = error.reason
        words = getattr(reason, "strerror", None) or str(reason)
        raise PageFailed(f"{url} does not answer: {words.lower()}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PageFailed(f"{url} does not answer: {error or type(error).__name__}") from None


def parse_conf(text: str) -> Site:
    """`/conf`, which is a site file with everything in it."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        raise PageFailed("the page at /conf is not a Hadoop configuration") from None
    if root.tag != "configuration":
        raise PageFailed("the page at /conf is not a Hadoop configuration")
    found = {}
    for one in root.iter("property"):
        name, value = one.findtext("name", "").strip(), one.findtext("value", "")
        if name and value:
            found[name] = value
    return Site(found)


def each(value: Any) -> list[Any]:
    """A list in JSON, as Hadoop's versions write it: a list of one may be the thing itself."""
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]
