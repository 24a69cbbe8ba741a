"""Credential plug-ins: a program named by the kubeconfig that says who we are (`exec:`).

It is told about the cluster in KUBERNETES_EXEC_INFO and answers with an ExecCredential: a token, a
certificate, and for how long. What it gave is kept in memory for that long.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from dromon.engines.kubernetes.access import Certificate, KubeconfigError
from dromon.errors import EngineError

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
PATIENCE = 120.0  # seconds for a program that may ask a browser
EARLY = 10.0  # seconds before its end that a credential is no longer used


class PluginFailed(EngineError):
    """The program that knows your credentials failed."""


class Credential(NamedTuple):
    token: str = ""
    certificate: Certificate | None = None
    expires: float | None = None  # None: when it is refused


class Plugin:
    """``spec``: the `exec` of a user. ``cluster``: what it may know of the cluster."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        directory: str,
        said: str,
        cluster: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._said = said
        self._environ = os.environ if environ is None else environ
        self._version = str(spec.get("apiVersion") or "")
        if self._version not in VERSIONS:
            raise KubeconfigError(
                f"{said}.apiVersion: {self._version or 'nothing'} is not spoken here",
                hint=f"Newer versions of the plug-in speak {VERSIONS[0]}.",
            )
        self.command = str(spec.get("command") or "")
        if not self.command:
            raise KubeconfigError(f"{said}.command: no command is named")
        # As kubectl: a path is relative to the file, a plain name is looked for in PATH.
        relative = os.sep in self.command and not os.path.isabs(self.command)
        program = os.path.join(directory, self.command) if relative else self.command
        self._words = [program, *(str(word) for word in spec.get("args") or ())]
        self._env = {str(v["name"]): str(v["value"]) for v in _entries(spec.get("env"), said)}
        self._hint = str(spec.get("installHint") or "").strip()
        self._mode = str(spec.get("interactiveMode") or "IfAvailable")
        self._cluster = dict(cluster) if spec.get("provideClusterInfo") is True else None
        self._lock = threading.Lock()
        self._kept: Credential | None = None

    def credential(self) -> Credential:
        """The one we have while it holds; else the program is run."""
        with self._lock:
            kept = self._kept
            if kept is None or (kept.expires is not None and time.time() > kept.expires - EARLY):
                # One that is given out at its very end is used once all the same.
                self._kept = kept = self._run()
            return kept

    def forget(self) -> None:
        with self._lock:
            self._kept = None

    def _run(self) -> Credential:
        import subprocess

        interactive = self._may_ask()
        spec: dict[str, Any] = {"interactive": interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}
        environ = {**self._environ, **self._env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            done = subprocess.run(
                self._words,
                env=environ,
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                timeout=PATIENCE,
                check=False,
            )
        except FileNotFoundError:
            raise PluginFailed(
                f"{self.command}, which knows your credentials, is not installed ({self._said})",
                hint=self._hint or f"Install {self.command}, and see that it is in PATH.",
            ) from None
        except subprocess.TimeoutExpired:
            raise PluginFailed(
                f"{self.command} gave no credentials in {PATIENCE:.0f} s ({self._said})",
                hint="Run it by hand to see what it waits for.",
            ) from None
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise PluginFailed(f"{self.command} cannot be run: {words} ({self._said})") from None
        if done.returncode:
            said = (done.stderr or b"").decode("utf-8", "replace").strip().splitlines()
            tail = f": {said[-1].strip()}" if said else ""
            raise PluginFailed(
                f"{self.command} failed with code {done.returncode}{tail} ({self._said})",
                hint=self._hint or "Log in again with what it belongs to.",
            )
        return self._parsed(done.stdout)

    def _may_ask(self) -> bool:
        if self._mode == "Never":
            return False
        here = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._mode == "Always" and not here:
            raise PluginFailed(
                f"{self.command} must ask you something, and there is no terminal ({self._said})",
                hint="Run this in a terminal, or use credentials that need no answer.",
            )
        return here

    def _parsed(self, output: bytes) -> Credential:
        try:
            answer = json.loads(output)
            version, status = answer["apiVersion"], answer["status"]
            token = str(status.get("token") or "")
            chain = str(status.get("clientCertificateData") or "")
            key = str(status.get("clientKeyData") or "")
            until = status.get("expirationTimestamp")
            expires = _time(str(until)) if until else None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._nonsense("it is no ExecCredential") from None
        if version != self._version:
            raise self._nonsense(f"it speaks {version}, the kubeconfig says {self._version}")
        if bool(chain) != bool(key):
            raise self._nonsense("it has a certificate or a key, not both")
        if not token and not chain:
            raise self._nonsense("it has neither a token nor a certificate")
        return Credential(token, Certificate(chain, key) if chain else None, expires)

    def _nonsense(self, why: str) -> PluginFailed:
        return PluginFailed(
            f"{self.command} answered what cannot be used: {why} ({self._said})",
            hint="Run it by hand; other versions of it may speak as the kubeconfig wants.",
        )


def _entries(value: Any, said: str) -> list[Mapping[str, Any]]:
    found = value or []
    if not isinstance(found, list) or any(
        not isinstance(v, dict) or "name" not in v or "value" not in v for v in found
    ):
        raise KubeconfigError(f"{said}.env: a list of names and values is wanted")
    return found


def _time(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
