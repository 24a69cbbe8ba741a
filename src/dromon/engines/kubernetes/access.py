"""How one cluster is reached, and as whom: its server, what it is trusted by, who we are there.

Found by `kubeconfig`; used by `http`. Keys never lie on a disk because of us: they are handed to
TLS in memory.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dromon.errors import UsageError

if TYPE_CHECKING:
    from dromon.engines.kubernetes.plugin import Plugin


class KubeconfigError(UsageError):
    """The kubeconfig cannot be used."""

    hint = "`kubectl config view` shows what it says; `kubectl cluster-info` tries it."


class Server(NamedTuple):
    """``said``: where this was written, for messages; ``ca``: PEM, empty for the system's own."""

    url: str
    scheme: str
    host: str
    port: int
    path: str
    ca: str = ""
    insecure: bool = False
    name: str = ""  # in its certificate, where that is not the host
    proxy: str = ""  # http://[user:password@]host:port, asked to CONNECT
    said: str = ""


class Certificate(NamedTuple):
    """A client's certificate and key, PEM."""

    chain: str
    key: str


class Identity:
    """Who we say we are. Of the ways given, a plug-in wins over a file, a file over a token."""

    def __init__(
        self,
        *,
        certificate: Certificate | None = None,
        token: str = "",
        token_file: str = "",
        password: tuple[str, str] | None = None,
        plugin: Plugin | None = None,
        said: str = "",
    ) -> None:
        self._certificate = certificate
        self._token = token
        self._file = token_file
        self._password = password
        self._plugin = plugin
        self.said = said
        self._read: tuple[tuple[int, int], str] = ((0, 0), "")

    def headers(self) -> dict[str, str]:
        token = self._current()
        if token:
            return {"Authorization": f"Bearer {token}"}
        if self._password:
            pair = base64.b64encode(":".join(self._password).encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}

    def certificate(self) -> Certificate | None:
        if self._plugin is not None:
            return self._plugin.credential().certificate or self._certificate
        return self._certificate

    def renew(self) -> bool:
        """After a refusal: is there anything newer to show?"""
        if self._plugin is not None:
            self._plugin.forget()
            return True
        if self._file:
            before = self._read[1]
            self._read = ((0, 0), "")
            return self._current() != before
        return False

    def _current(self) -> str:
        if self._plugin is not None:
            return self._plugin.credential().token
        return self._from_file() if self._file else self._token

    def _from_file(self) -> str:
        """Read again when it has changed: service accounts' tokens live for an hour."""
        try:
            found = os.stat(self._file)
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._read[0] or not self._read[1]:
                with open(self._file, encoding="utf-8", errors="replace") as file:
                    self._read = (stamp, file.read().strip())
        except OSError as error:
            if not self._read[1] and not self._token:
                words = (error.strerror or str(error)).lower()
                raise KubeconfigError(f"{self._file}: {words} ({self.said})") from None
        return self._read[1] or self._token

    # ---- in words -------------------------------------------------------------------------------

    def expiry(self) -> float | None:
        """When what we show runs out, as far as it says so itself."""
        token = self._current()
        if token:
            return _token_expiry(token)
        certificate = self.certificate()
        return _certificate_expiry(certificate.chain) if certificate else None

    @property
    def kind(self) -> str:
        if self._plugin is not None:
            return f"what {self._plugin.command} gave"
        if self._file:
            return f"the token in {self._file}"
        if self._token:
            return "the token"
        if self._password:
            return "the password"
        return "the client certificate" if self._certificate else ""

    @property
    def cure(self) -> str:
        if self._plugin is not None:
            return f"Log in again with what {self._plugin.command} belongs to"
        if not self.kind:
            return f"{self.said} names no token, certificate or plug-in: log in to the cluster"
        return f"Get a new one where you got your kubeconfig, and put it there ({self.said})"


class Acting(NamedTuple):
    """Whom we act as, where that is not ourselves."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""


class Access:
    """``source``: the file it is from, ``context`` the name in it; ``namespace``: for jobs that
    name none.
    """

    def __init__(
        self,
        server: Server,
        identity: Identity,
        *,
        namespace: str = "default",
        acting: Acting = Acting(),  # noqa: B008
        source: str = "",
        context: str = "",
    ) -> None:
        self.server = server
        self.identity = identity
        self.namespace = namespace
        self.acting = acting
        self.source = source
        self.context = context
        self._lock = threading.Lock()
        self._tls: tuple[Certificate | None, ssl.SSLContext] | None = None

    def __repr__(self) -> str:  # without what is secret
        return f"Access({self.server.url}, {self.words})"

    @property
    def words(self) -> str:
        """Where all this comes from."""
        return f"context {self.context} of {self.source}" if self.context else self.source

    def acting_as(self, user: str, groups: Sequence[str] = ()) -> Access:
        """The same, for somebody else: the server checks whether we may."""
        return Access(
            self.server, self.identity, namespace=self.namespace,
            acting=Acting(user, tuple(groups)), source=self.source, context=self.context,
        )  # fmt: skip

    def headers(self) -> list[tuple[str, str]]:
        """Who asks; a plug-in may be run for it."""
        found = list(self.identity.headers().items())
        if self.acting.user:
            found.append(("Impersonate-User", self.acting.user))
        if self.acting.uid:
            found.append(("Impersonate-Uid", self.acting.uid))
        found += [("Impersonate-Group", group) for group in self.acting.groups]
        for name, value in found:
            if not value.isprintable():
                what = "token" if name == "Authorization" else name.lower().replace("-", " ")
                raise KubeconfigError(f"{self.identity.said}: the {what} has a line break in it")
        return found

    def tls(self) -> ssl.SSLContext:
        """For connections; another one once the certificate is another one."""
        certificate = self.identity.certificate()
        with self._lock:
            if self._tls is None or self._tls[0] != certificate:
                self._tls = (certificate, _context(self.server, certificate, self.identity.said))
            return self._tls[1]


# --- TLS


def _context(server: Server, certificate: Certificate | None, said: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if server.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif server.ca:
        try:
            context.load_verify_locations(cadata=server.ca)
        except (ssl.SSLError, ValueError):
            raise KubeconfigError(
                f"{server.said}: the certificate authority is no PEM certificate"
            ) from None
    else:
        context.load_default_certs()
    if certificate is not None:
        _load(context, certificate, said)
    return context


def _load(context: ssl.SSLContext, certificate: Certificate, said: str) -> None:
    """TLS takes them from files only. Where there are files in memory, no disk sees the key."""
    text = f"{certificate.key.strip()}\n{certificate.chain.strip()}\n".encode()
    try:
        if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
            handle = os.memfd_create("key", os.MFD_CLOEXEC)
            try:
                os.write(handle, text)
                context.load_cert_chain(f"/proc/self/fd/{handle}", password=_no_password)
            finally:
                os.close(handle)
            return
        import tempfile

        with tempfile.NamedTemporaryFile(prefix="dromon-", suffix=".pem") as file:  # mode 0600
            file.write(text)
            file.flush()
            context.load_cert_chain(file.name, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        words = "do not belong together" if "MISMATCH" in str(error) else "cannot be read as PEM"
        raise KubeconfigError(f"{said}: the client's certificate and key {words}") from None


def _no_password() -> str:
    """Rather than that OpenSSL asks on the terminal."""
    raise ValueError("the key has a password")


# --- what says itself when it runs out


def _token_expiry(token: str) -> float | None:
    import json

    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None


_PEM = r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----"
# A certificate's validity: a sequence of two times, which look like nothing else in it.
_VALIDITY = rb"\x30.(?:\x17\x0d\d{12}Z|\x18\x0f\d{14}Z)(\x17\x0d\d{12}Z|\x18\x0f\d{14}Z)"  # fmt: skip  # noqa: E501


def _certificate_expiry(chain: str) -> float | None:
    found = re.search(_PEM, chain, re.DOTALL)
    try:
        der = base64.b64decode(found[1]) if found else b""
    except ValueError:
        return None
    validity = re.search(_VALIDITY, der, re.DOTALL)
    if validity is None:
        return None
    import calendar
    import time

    text = validity[1][2:].decode()
    # Years of two digits are of 1950 to 2049.
    year = "" if len(text) == 15 else "20" if int(text[:2]) < 50 else "19"
    return float(calendar.timegm(time.strptime(year + text, "%Y%m%d%H%M%SZ")))


def proxy_of(scheme: str, host: str, environ: Mapping[str, str]) -> str:
    """The proxy that the environment names for a server, as Go's programs understand it."""
    name = f"{scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    if not proxy or host == "localhost" or host.startswith("127.") or host == "::1":
        return ""
    for word in (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(","):
        word = word.strip().lower().partition(":")[0] if ":" not in host else word.strip().lower()
        if word and (word == "*" or _covers(word, host.lower())):
            return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _covers(word: str, host: str) -> bool:
    if "/" in word:
        import ipaddress

        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(word, strict=False)
        except ValueError:
            return False
    word = word.lstrip("*").lstrip(".")
    return host == word or host.endswith(f".{word}")
