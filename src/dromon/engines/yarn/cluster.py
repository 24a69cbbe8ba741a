"""Which cluster: from a HADOOP_CONF_DIR or an address to its site, its user and its managers.

An address alone is enough: the ResourceManager's own web page `/conf` has the rest (where HDFS is,
where ApplicationMasters report, where logs go). Nothing is asked of the cluster here but that page.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dromon.engines.yarn.pages import PageFailed, Pages
from dromon.errors import EngineError, Refused, UsageError
from dromon.hadoop import addresses, site
from dromon.hadoop.addresses import Address, NameService, ResourceManager
from dromon.hadoop.site import Site, SiteFileError

DIRECTORIES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")  # in Hadoop's order: the later one wins


class NoCluster(UsageError):
    """No cluster is named."""

    hint = (
        "Name one (`dromon context add prod --yarn RM-HOST:8032`), or set HADOOP_CONF_DIR to the"
        " directory with its yarn-site.xml and core-site.xml."
    )


@dataclass(frozen=True)
class Cluster:
    """``source``: how the user named it, for messages."""

    site: Site
    user: str
    managers: tuple[ResourceManager, ...]
    source: str
    _conf: list[Site | None] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def from_directory(
        cls, *paths: str | os.PathLike[str], environ: Mapping[str, str] | None = None
    ) -> Cluster:
        """From the files of a configuration directory; of several, later ones win."""
        environ = os.environ if environ is None else environ
        files: dict[str, str] = {}
        for path in paths:
            files |= _files(Path(path).expanduser())
        source = ", ".join(str(path) for path in paths)
        if "yarn-site.xml" not in files:
            raise SiteFileError(f"{source}: there is no yarn-site.xml", hint=NoCluster.hint)
        try:
            return cls._of(site.load(files, environ), environ, source)
        except SiteFileError as error:
            raise SiteFileError(f"{source}: {error}", hint=error.hint) from None

    @classmethod
    def from_address(cls, text: str, environ: Mapping[str, str] | None = None) -> Cluster:
        """From ``rm``, ``rm:8032``, ``http://rm:8088``, or several of them between commas."""
        environ = os.environ if environ is None else environ
        places = [_place(word) for word in text.split(",") if word.strip()]
        if not places:
            raise NoCluster(f"{text!r} names no ResourceManager")
        return cls._of(_ask(places), environ, text)

    @classmethod
    def _of(cls, found: Site, environ: Mapping[str, str], source: str) -> Cluster:
        if found.get("hadoop.security.authentication").lower() != "simple":
            raise Refused(
                f"{source}: this cluster wants Kerberos, which Dromon cannot do yet",
                hint="Clusters with simple authentication work; Kerberos is not proven yet.",
            )
        return cls(found, _user(environ), addresses.resource_managers(found), source)

    @property
    def clients(self) -> tuple[Address, ...]:
        """Where clients' RPC goes."""
        return tuple(manager.client for manager in self.managers)

    @property
    def webs(self) -> tuple[str, ...]:
        return tuple(manager.web for manager in self.managers)

    @property
    def name_service(self) -> NameService:
        """The default file system."""
        return addresses.name_service(self.site)

    @property
    def pages(self) -> Pages:
        return Pages(self.webs, self.user)

    def effective(self, name: str, default: str = "") -> str:
        """A setting as the ResourceManager has it; where its page is closed to us, as we do."""
        if not self._conf:
            try:
                self._conf.append(self.pages.conf())
            except EngineError:
                self._conf.append(None)
        conf = self._conf[0]
        return self.site.get(name, default) if conf is None else conf.get(name, default)


def find(where: str | None = None, environ: Mapping[str, str] | None = None) -> Cluster:
    """The cluster meant by ``where``, a directory or an address; else by the environment."""
    environ = os.environ if environ is None else environ
    if where:
        path = Path(where).expanduser()
        if path.is_dir():
            return Cluster.from_directory(path, environ=environ)
        if "://" not in where and (os.sep in where or where.startswith(("~", "."))):
            raise NoCluster(f"{where} is no directory")
        return Cluster.from_address(where, environ)
    paths = [environ[name] for name in DIRECTORIES if environ.get(name)]
    if not paths:
        raise NoCluster("no YARN cluster is named")
    return Cluster.from_directory(*dict.fromkeys(paths), environ=environ)


# --- a directory


def _files(path: Path) -> dict[str, str]:
    try:
        return {file.name: file.read_text("utf-8", "replace") for file in path.glob("*.xml")}
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SiteFileError(f"{error.filename or path} cannot be read: {reason}") from None


def _user(environ: Mapping[str, str]) -> str:
    """Whom Hadoop's own clients would act as."""
    if environ.get("HADOOP_USER_NAME"):
        return environ["HADOOP_USER_NAME"]
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container that runs under a number
        return environ.get("USER") or str(os.getuid())


# --- an address


@dataclass(frozen=True)
class _Place:
    """One ResourceManager as the user wrote it: ``rpc`` where that was said, and pages to try."""

    host: str
    rpc: Address | None
    webs: tuple[str, ...]


def _place(word: str) -> _Place:
    word = word.strip()
    if "://" in word:
        parts = urlsplit(word)
        if parts.scheme not in ("http", "https"):
            raise NoCluster(
                f"{word!r} is no address of a ResourceManager",
                hint="Write HOST:PORT of its RPC, or http://HOST:PORT of its web page.",
            )
        tls = parts.scheme == "https"
        port = addresses.WEB_TLS_PORT if tls else addresses.WEB_PORT
        web = addresses.parse(parts.netloc, port)
        return _Place(web.host, None, (f"{parts.scheme}://{web}",))
    rpc = addresses.parse(word, addresses.CLIENT_PORT)
    usual = f"http://{Address(rpc.host, addresses.WEB_PORT)}"
    if rpc.port == addresses.CLIENT_PORT:
        return _Place(rpc.host, rpc, (usual,))
    # A port of the site's own choice may be that of the pages as well: it costs nothing to try.
    return _Place(rpc.host, rpc, (f"http://{rpc}", usual))


def _ask(places: Sequence[_Place]) -> Site:
    """The site of these ResourceManagers, by the first page that answers."""
    failures: list[str] = []
    for place in places:
        for web in place.webs:
            try:
                conf = Pages((web,)).conf()
            except PageFailed as failed:
                failures.append(str(failed))
            else:
                return _fitted(conf, place, web, places)
    raise EngineError(
        f"the ResourceManager's settings cannot be read: {'; '.join(failures)}",
        hint="Check the address, and that it runs. If its web pages have a port of their own,"
        " name that (http://HOST:PORT); if they are closed to you, set HADOOP_CONF_DIR.",
    )


def _fitted(conf: Site, answered: _Place, web: str, places: Sequence[_Place]) -> Site:
    """What the ResourceManager says of itself, seen from here. What the user typed is how to reach
    it; addresses of every interface, or of its own machine, mean nothing to us.
    """
    if conf.flag("yarn.resourcemanager.ha.enabled"):
        return conf  # it names its peers, and how everybody reaches them
    (itself,) = addresses.resource_managers(
        conf.with_properties({"yarn.resourcemanager.hostname": answered.host})
    )
    found: dict[str, str] = {}
    names = [""] if len(places) == 1 else [f".rm{number}" for number in range(1, len(places) + 1)]
    if len(places) > 1:  # a pair that does not know of each other: one is asked at a time
        found["yarn.resourcemanager.ha.enabled"] = "true"
        found["yarn.resourcemanager.ha.rm-ids"] = ",".join(name[1:] for name in names)
    tls = conf.get("yarn.http.policy") == "HTTPS_ONLY"
    for end, place in zip(names, places, strict=True):
        typed = place.rpc if place is not answered or web != f"http://{place.rpc}" else None
        pages = urlsplit(web if place is answered else itself.web).netloc
        where = {
            "hostname": place.host,
            "address": typed or _from(place, itself.client),
            "scheduler.address": _from(place, itself.scheduler),
            "webapp.https.address" if tls else "webapp.address": (
                pages if place is answered else _from(place, addresses.parse(pages, 0))
            ),
        }
        found |= {f"yarn.resourcemanager.{key}{end}": str(value) for key, value in where.items()}
    return conf.with_properties(found)


def _from(place: _Place, said: Address) -> Address:
    """An address a ResourceManager gave, for whoever reaches it at this place."""
    return Address(place.host, said.port)
