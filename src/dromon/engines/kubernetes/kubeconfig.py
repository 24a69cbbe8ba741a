"""Which cluster, and as whom: from kubeconfig files, as kubectl reads them, or from inside a pod.

Nothing is asked of the cluster here, and no plug-in is run.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dromon.engines.kubernetes.access import (
    Access,
    Acting,
    Certificate,
    Identity,
    KubeconfigError,
    Server,
    proxy_of,
)
from dromon.errors import UsageError

IN_CLUSTER = "in-cluster"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class NoCluster(UsageError):
    """No Kubernetes cluster is named."""

    hint = (
        "Set KUBECONFIG to the file you got for the cluster, or put it at ~/.kube/config; or name"
        " it: `dromon context add prod --kubernetes FILE`."
    )


def find(
    where: str = "",
    context: str = "",
    environ: Mapping[str, str] | None = None,
    *,
    acting_as: str = "",
    groups: Sequence[str] = (),
    service_account: str = SERVICE_ACCOUNT,
) -> Access:
    """The cluster of ``where``: a kubeconfig (or several, as in KUBECONFIG), ``in-cluster``, or
    nothing: then by the environment. ``context`` is one of its contexts, else its current one.
    """
    environ = os.environ if environ is None else environ
    if where == IN_CLUSTER:
        return _as(_in_cluster(environ, service_account), acting_as, groups)
    listed = where or environ.get("KUBECONFIG", "")
    if listed:
        paths = [os.path.expanduser(path) for path in listed.split(os.pathsep) if path]
    else:
        home = environ.get("HOME") or os.path.expanduser("~")
        paths = [os.path.join(home, ".kube", "config")]
    there = [path for path in dict.fromkeys(paths) if os.path.exists(path)]
    if not there and listed:
        name = "the kubeconfig" if where else "KUBECONFIG names"
        raise NoCluster(f"{name} {', '.join(paths)}: there is no such file")
    if not there and not context and _is_in_pod(environ, service_account):
        return _as(_in_cluster(environ, service_account), acting_as, groups)
    if not there:
        raise NoCluster("no Kubernetes cluster is named")
    return _as(_Config.load(there).access(context, environ), acting_as, groups)


def _as(access: Access, user: str, groups: Sequence[str]) -> Access:
    return access.acting_as(user, groups) if user else access


# --- inside a pod


def _is_in_pod(environ: Mapping[str, str], directory: str) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and os.path.exists(f"{directory}/token")


def _in_cluster(environ: Mapping[str, str], directory: str) -> Access:
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    if not _is_in_pod(environ, directory):
        raise NoCluster(
            "this is no pod with a service account's token",
            hint="Set `automountServiceAccountToken: true` on the pod, or name a kubeconfig.",
        )
    port = int(environ.get("KUBERNETES_SERVICE_PORT", "") or 443)
    shown = f"[{host}]" if ":" in host else host
    try:
        ca = _text(f"{directory}/ca.crt")
        namespace = _text(f"{directory}/namespace").strip() or "default"
    except OSError as error:
        raise KubeconfigError(f"{error.filename}: {(error.strerror or '').lower()}") from None
    server = Server(
        f"https://{shown}:{port}", "https", host, port, "", ca=ca, said=f"{directory}/ca.crt"
    )
    identity = Identity(token_file=f"{directory}/token", said="the pod's service account")
    return Access(server, identity, namespace=namespace, source="the pod's service account")


# --- files


class _Entry(NamedTuple):
    """A cluster, user or context by name, and the file it is from."""

    data: dict[str, Any]
    file: str
    place: str  # users[bob]

    @property
    def said(self) -> str:
        return f"{self.file}: {self.place}"

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if value is None:
            return ""
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise self.wrong(key, "text is wanted")
        return str(value)

    def flag(self, key: str) -> bool:
        value = self.data.get(key)
        if isinstance(value, str) and value.lower() in _FLAGS:
            return _FLAGS[value.lower()]
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false is wanted")
        return bool(value)

    def words(self, key: str) -> tuple[str, ...]:
        value = self.data.get(key) or []
        if not isinstance(value, list):
            raise self.wrong(key, "a list is wanted")
        return tuple(str(word) for word in value)

    def path(self, key: str) -> str:
        """A path in it is relative to it."""
        name = self.text(key)
        return os.path.join(os.path.dirname(os.path.abspath(self.file)), name) if name else ""

    def pem(self, key: str) -> str:
        """The text of ``key``-data, which wins, or of the file that ``key`` names."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode("".join(data.split()), validate=True).decode("ascii")
            except ValueError:
                raise self.wrong(f"{key}-data", "this is no base64 of a PEM text") from None
        if not (path := self.path(key)):
            return ""
        try:
            return _text(path)
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise self.wrong(key, f"{path} cannot be read: {words}") from None

    def wrong(self, key: str, why: str, hint: str | None = None) -> KubeconfigError:
        return KubeconfigError(f"{self.said}.{key}: {why}", hint=hint)


# kubectl reads an older YAML, in which these are no texts.
_FLAGS = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}
_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}


class _Config:
    """Several files as one: of every name and of the current context, the first that has it."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = tuple(files)
        self._current = ""
        self._entries: dict[str, dict[str, _Entry]] = {plural: {} for plural in _LISTS}

    @classmethod
    def load(cls, files: Sequence[str]) -> _Config:
        config = cls(files)
        for file in files:
            config._add(file, _read(file))
        return config

    def _add(self, file: str, data: dict[str, Any]) -> None:
        current = data.get("current-context")
        if current and not self._current:
            self._current = str(current)
        for plural, singular in _LISTS.items():
            entries = data.get(plural) or []
            if not isinstance(entries, list):
                raise KubeconfigError(f"{file}: {plural}: a list is wanted")
            for number, entry in enumerate(entries):
                inner = entry.get(singular) if isinstance(entry, dict) else None
                if not isinstance(entry, dict) or "name" not in entry:
                    raise KubeconfigError(f"{file}: {plural}[{number}]: it has no name")
                name = str(entry["name"])
                if inner is not None and not isinstance(inner, dict):
                    raise KubeconfigError(f"{file}: {plural}[{name}].{singular}: keys are wanted")
                made = _Entry(inner or {}, file, f"{plural}[{name}].{singular}")
                self._entries[plural].setdefault(name, made)

    def access(self, name: str, environ: Mapping[str, str]) -> Access:
        source = ", ".join(self._files)
        known = self._entries["contexts"]
        listed = f"It has {', '.join(known)}." if known else "It has none."
        if not name and not self._current:
            raise KubeconfigError(f"{source}: no context is current", hint=f"Name one. {listed}")
        chosen = name or self._current
        if chosen not in known:
            where = f"there is no context {chosen}"
            if not name:
                where = f"current-context: {where}"
            raise KubeconfigError(f"{source}: {where}", hint=listed)
        context = known[chosen]
        cluster = self._named(context, "cluster", "clusters")
        user = self._named(context, "user", "users")
        server = _server(cluster, environ)
        return Access(
            server,
            _identity(user, cluster, server, environ),
            namespace=context.text("namespace") or "default",
            acting=Acting(user.text("as"), user.words("as-groups"), user.text("as-uid")),
            source=context.file,
            context=chosen,
        )

    def _named(self, context: _Entry, key: str, plural: str) -> _Entry:
        name = context.text(key)
        if not name and key == "user":  # some servers ask for nothing
            return _Entry({}, context.file, "no user")
        if name not in self._entries[plural]:
            raise context.wrong(key, f"{name or 'nothing'} is not among {plural}")
        return self._entries[plural][name]


def _read(file: str) -> dict[str, Any]:
    try:
        text = _text(file)
    except OSError as error:
        raise KubeconfigError(
            f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        ) from None
    data = _parsed(text, file)
    if data is None:
        return {}
    if not isinstance(data, dict) or data.get("kind", "Config") != "Config":
        raise KubeconfigError(f"{file} is no kubeconfig")
    return data


def _parsed(text: str, file: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            pass  # YAML may start so too
    # Imported here: where a pod's own account is used, no file is read.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise KubeconfigError(f"{file}{line} is not YAML: {error.problem or 'broken'}") from None
    except (YAMLError, ValueError, LookupError, AssertionError, TypeError):
        # The parser answers some malformed texts with its own internal errors.
        raise KubeconfigError(f"{file} is not YAML") from None


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


# --- a cluster


def _server(cluster: _Entry, environ: Mapping[str, str]) -> Server:
    url = cluster.text("server")
    if not url:
        raise cluster.wrong("server", "no address is given")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")  # as kubectl has it
        port = parts.port
    except ValueError:
        raise cluster.wrong("server", f"{url} is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise cluster.wrong("server", f"{url} is no http or https address")
    proxy = cluster.text("proxy-url") or proxy_of(parts.scheme, parts.hostname, environ)
    if proxy and not proxy.startswith("http://"):
        raise cluster.wrong(
            "proxy-url",
            f"{_without_password(proxy)}: only proxies of http:// can be used",
            hint="Remove it if the server can be reached without, or name an HTTP proxy.",
        )
    insecure = cluster.flag("insecure-skip-tls-verify")
    return Server(
        url=url.rstrip("/"),
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or (443 if parts.scheme == "https" else 80),
        path=parts.path.rstrip("/"),
        ca="" if insecure else cluster.pem("certificate-authority"),
        insecure=insecure,
        name=cluster.text("tls-server-name"),
        proxy=proxy,
        said=cluster.said,
    )


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


# --- a user


def _identity(
    user: _Entry, cluster: _Entry, server: Server, environ: Mapping[str, str]
) -> Identity:
    if user.data.get("auth-provider"):
        provider = user.data["auth-provider"]
        name = provider.get("name", "") if isinstance(provider, dict) else ""
        raise user.wrong(
            "auth-provider",
            f"{name or 'this'} was dropped by Kubernetes in 1.26",
            hint="Make the kubeconfig anew with your provider's own tool: it then uses `exec`.",
        )
    chain, key = user.pem("client-certificate"), user.pem("client-key")
    if bool(chain) != bool(key):
        have, lack = ("certificate", "key") if chain else ("key", "certificate")
        raise user.wrong(f"client-{lack}", f"there is a client {have}, and no {lack}")
    name, password = user.text("username"), user.text("password")
    return Identity(
        certificate=Certificate(chain, key) if chain else None,
        token=user.text("token"),
        token_file=user.path("tokenFile"),
        password=(name, password) if name else None,
        plugin=_plugin(user, cluster, server, environ),
        said=user.said,
    )


def _plugin(user: _Entry, cluster: _Entry, server: Server, environ: Mapping[str, str]) -> Any:
    spec = user.data.get("exec")
    if spec is None:
        return None
    if not isinstance(spec, dict):
        raise user.wrong("exec", "keys are wanted")
    from dromon.engines.kubernetes.plugin import GROUP, Plugin

    told: dict[str, Any] = {"server": server.url}
    if server.name:
        told["tls-server-name"] = server.name
    if server.insecure:
        told["insecure-skip-tls-verify"] = True
    if server.ca:
        told["certificate-authority-data"] = base64.b64encode(server.ca.encode()).decode()
    if proxy := cluster.text("proxy-url"):
        told["proxy-url"] = proxy
    for extension in cluster.data.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == f"{GROUP}/exec":
            told["config"] = extension.get("extension")
    directory = os.path.dirname(os.path.abspath(user.file))
    return Plugin(spec, directory, f"{user.said}.exec", told, environ)
