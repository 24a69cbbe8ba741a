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


def parse(text: str, port: int, here: str = "127.0.0.1") -> Address:
    """``host``, ``host:port`` or ``[::1]:port``.

    A server may be told to listen on every interface (0.0.0.0); to a client that means ``here``.
    """
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, found = parts.hostname, parts.port
    except ValueError:
        host, found = None, None
    if not host or parts.netloc != text.strip():
        raise SiteFileError(f"{text!r} is no address", hint="Write host:port.")
    return Address(here if host == "0.0.0.0" else host, found or port)


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
    named = site.get(f"yarn.resourcemanager.hostname{end}")
    direct = site.get(f"yarn.resourcemanager.address{end}")
    if not named and not direct:
        raise SiteFileError(
            f"neither yarn.resourcemanager.hostname{end} nor yarn.resourcemanager.address{end}"
            " is set",
            hint="Is yarn-site.xml in HADOOP_CONF_DIR, and is it this cluster's?",
        )
    host = parse(named or direct, CLIENT_PORT).host

    def address(key: str, port: int) -> Address:
        text = site.get(f"yarn.resourcemanager.{key}{end}")
        return parse(text, port, host) if text else Address(host, port)

    if site.get("yarn.http.policy") == "HTTPS_ONLY":
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
    name = parts.netloc.rpartition("@")[2]
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
    return f"{scheme}://{parse(text, port, host) if text else Address(host, port)}"
