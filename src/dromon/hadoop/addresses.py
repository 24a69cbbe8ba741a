"""Where a site's ResourceManagers and NameNodes are, high availability resolved. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from dromon.hadoop.site import Site, SiteFileError

CLIENT_PORT, SCHEDULER_PORT, WEB_PORT, WEB_TLS_PORT = 8032, 8030, 8088, 8090
NAME_NODE_PORT, NAME_NODE_WEB_PORT, NAME_NODE_WEB_TLS_PORT = 8020, 9870, 9871


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ResourceManager:
    """One of them; ``id`` is empty where there is only one."""

    id: str
    client: Address
    scheduler: Address
    web: str  # the URL of its pages and of its REST


@dataclass(frozen=True)
class NameNode:
    id: str
    rpc: Address
    web: str  # the URL of WebHDFS


@dataclass(frozen=True)
class NameService:
    """A file system of HDFS: what stands after ``hdfs://``, and the NameNodes behind it."""

    name: str
    nodes: tuple[NameNode, ...]
    logical: bool  # the name is no host: clients find the active node themselves

    @property
    def token_service(self) -> str:
        """The service that delegation tokens are filed under; empty: the node's ip:port."""
        return f"ha-hdfs:{self.name}" if self.logical else ""


def parse(text: str, port: int) -> Address:
    """``host``, ``host:port`` or ``[::1]:port``."""
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, found = parts.hostname, parts.port
    except ValueError:
        host, found = None, None
    if not host or "/" in text:
        raise SiteFileError(f"{text!r} is no address", hint="Write host:port.")
    # A server may bind to every interface; to a client on the same machine that is this one.
    return Address("127.0.0.1" if host == "0.0.0.0" else host, found or port)


def resource_managers(site: Site) -> tuple[ResourceManager, ...]:
    """All of them, in the order of the configuration."""
    if not site.flag("yarn.resourcemanager.ha.enabled"):
        return (_resource_manager(site, ""),)
    names = site.words("yarn.resourcemanager.ha.rm-ids")
    if not names:
        raise SiteFileError(
            "yarn.resourcemanager.ha.enabled is true, but yarn.resourcemanager.ha.rm-ids is empty"
        )
    return tuple(_resource_manager(site, name) for name in names)


def _resource_manager(site: Site, name: str) -> ResourceManager:
    end = f".{name}" if name else ""
    secure = site.get("yarn.http.policy") == "HTTPS_ONLY"

    def address(key: str, port: int) -> Address:
        text = site.get(f"yarn.resourcemanager.{key}{end}")
        host = site.get(f"yarn.resourcemanager.hostname{end}")
        if not text and not host:
            raise SiteFileError(
                f"neither yarn.resourcemanager.{key}{end} nor yarn.resourcemanager.hostname{end}"
                " is set",
                hint="Is yarn-site.xml in HADOOP_CONF_DIR, and is it this cluster's?",
            )
        return parse(text or host, port)

    if secure:
        web = f"https://{address('webapp.https.address', WEB_TLS_PORT)}"
    else:
        web = f"http://{address('webapp.address', WEB_PORT)}"
    return ResourceManager(
        name, address("address", CLIENT_PORT), address("scheduler.address", SCHEDULER_PORT), web
    )


def name_service(site: Site, url: str = "") -> NameService:
    """The file system a URL (``hdfs://nameservice/path``) names, or the site's default one."""
    url = url or site.get("fs.defaultFS")
    parts = urlsplit(url)
    if parts.scheme not in ("hdfs", "webhdfs", "swebhdfs") or not parts.netloc:
        raise SiteFileError(
            f"{url} is not on HDFS",
            hint="Set fs.defaultFS in core-site.xml to hdfs://HOST:PORT or hdfs://NAMESERVICE.",
        )
    name = parts.netloc
    if name not in site.words("dfs.nameservices"):
        rpc = parse(name, NAME_NODE_PORT)
        return NameService(name, (NameNode("", rpc, _web(site, rpc.host, "")),), logical=False)
    nodes = site.words(f"dfs.ha.namenodes.{name}")
    if not nodes:  # a nameservice of one NameNode, as in a federation
        return NameService(name, (_name_node(site, "", f".{name}"),), logical=False)
    found = tuple(_name_node(site, node, f".{name}.{node}") for node in nodes)
    return NameService(name, found, logical=True)


def _name_node(site: Site, name: str, end: str) -> NameNode:
    text = site.get(f"dfs.namenode.rpc-address{end}")
    if not text:
        raise SiteFileError(f"dfs.namenode.rpc-address{end} is not set")
    rpc = parse(text, NAME_NODE_PORT)
    return NameNode(name, rpc, _web(site, rpc.host, end))


def _web(site: Site, host: str, end: str) -> str:
    if site.get("dfs.http.policy") == "HTTPS_ONLY":
        scheme, key, port = "https", "https", NAME_NODE_WEB_TLS_PORT
    else:
        scheme, key, port = "http", "http", NAME_NODE_WEB_PORT
    text = site.get(f"dfs.namenode.{key}-address{end}")
    address = parse(text, port) if text else Address(host, port)
    if address.host == "127.0.0.1" and text.startswith("0.0.0.0"):
        address = Address(host, address.port)
    return f"{scheme}://{address}"
