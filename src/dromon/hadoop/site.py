"""Hadoop's ``*-site.xml`` files as one set of properties, read as Hadoop's own Configuration does.

Texts come in as arguments; nothing is opened here. What the reading follows:

1. Later properties win, except over one that was marked ``final`` before.
2. A property without a value, or with an empty one, does not exist.
3. ``${name}`` stands for a Java system property or another property, ``${env.NAME}``,
   ``${env.NAME-default}`` and ``${env.NAME:-default}`` for the environment. The first name that
   stands for nothing ends the substitution, and more than twenty steps are a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from dromon.errors import UsageError

# In the order in which Hadoop's clients load them.
FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml", "resource-types.xml")

# What Hadoop ships as *-default.xml, for the keys that are asked for here.
DEFAULTS = {
    "fs.defaultFS": "file:///",
    "hadoop.rpc.protection": "authentication",
    "hadoop.security.authentication": "simple",
    "dfs.http.policy": "HTTP_ONLY",
    "yarn.http.policy": "HTTP_ONLY",
    "yarn.log-aggregation-enable": "false",
    "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
    "yarn.nodemanager.remote-app-log-dir-suffix": "logs",
    "yarn.resourcemanager.connect.max-wait.ms": "900000",
    "yarn.resourcemanager.ha.enabled": "false",
    "yarn.resourcemanager.placement-constraints.handler": "disabled",
}

# Old names that are still met, and the names they have now.
RENAMED = {
    "fs.default.name": "fs.defaultFS",
    "dfs.federation.nameservices": "dfs.nameservices",
    "dfs.http.address": "dfs.namenode.http-address",
}

_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
_ENVIRONMENT = re.compile(r"env\.([^:-]+)(?:(:?-)(.*))?", re.DOTALL)
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_FALLBACK = "{http://www.w3.org/2001/XInclude}fallback"
_STEPS = 20


class SiteFileError(UsageError):
    """The Hadoop configuration makes no sense."""

    hint = "Check the *-site.xml files of HADOOP_CONF_DIR."


class Site:
    """Properties, with substitution. ``environment`` and ``system`` are what variables may name."""

    def __init__(
        self,
        properties: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        system: Mapping[str, str] | None = None,
    ) -> None:
        self._properties = {RENAMED.get(name, name): value for name, value in properties.items()}
        self._environment = environment or {}
        self._system = system or {}

    def get(self, name: str, default: str = "") -> str:
        """The value, expanded and trimmed; Hadoop's own default, or this one, where there is none.

        Names of old are understood in files; ask by the new name.
        """
        value = self._properties.get(name, DEFAULTS.get(name))
        return default if value is None else self._expand(name, value).strip()

    def __contains__(self, name: str) -> bool:
        """Does a file set it? Defaults do not count."""
        return name in self._properties

    def flag(self, name: str) -> bool:
        return self.get(name).lower() == "true"

    def words(self, name: str) -> list[str]:
        """A list between commas."""
        return [word.strip() for word in self.get(name).split(",") if word.strip()]

    def number(self, name: str, default: int = 0) -> int:
        text = self.get(name) or str(default)
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise SiteFileError(f"{name} is {text!r}: not a whole number")
        return int(text)

    def with_properties(self, properties: Mapping[str, str]) -> Site:
        """The same with these on top, as ``-D`` does for Hadoop's own commands."""
        return Site({**self._properties, **properties}, self._environment, self._system)

    def _expand(self, name: str, value: str) -> str:
        text = value
        for _ in range(_STEPS):
            match = _VARIABLE.search(text)
            bound = self._lookup(match[1]) if match else None
            if match is None or bound is None:
                return text
            text = text[: match.start()] + bound + text[match.end() :]
        raise SiteFileError(f"{name} is {value!r}: its variables go in circles")

    def _lookup(self, variable: str) -> str | None:
        match = _ENVIRONMENT.fullmatch(variable)
        if match is not None:
            value = self._environment.get(match[1])
            if match[2] == ":-":
                return value or match[3]
            return match[3] if value is None and match[2] else value
        if variable in self._system:
            return self._system[variable]
        variable = RENAMED.get(variable, variable)
        return self._properties.get(variable, DEFAULTS.get(variable))


def load(
    files: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    system: Mapping[str, str] | None = None,
) -> Site:
    """The site that the texts of a HADOOP_CONF_DIR describe, by file name."""
    found: dict[str, str] = {}
    final: set[str] = set()
    for name in FILES:
        if name not in files:
            continue
        try:
            properties = list(_properties(files, name, ()))
        except RecursionError:
            raise SiteFileError(f"{name} nests too deep") from None
        for key, value, is_final in properties:
            if value and key not in final:
                found[key] = value
            if is_final:
                final.add(key)
    return Site(found, environment, system)


def _properties(
    files: Mapping[str, str], name: str, inside: tuple[str, ...]
) -> Iterator[tuple[str, str, bool]]:
    if name in inside:
        raise SiteFileError(f"{name} includes itself")
    try:
        root = ElementTree.fromstring(files[name])
    except (ElementTree.ParseError, ValueError) as error:
        raise SiteFileError(f"{name} is not well-formed XML: {error}") from None
    if root.tag != "configuration":
        raise SiteFileError(f"{name}: <configuration> expected, not <{root.tag}>")
    yield from _walk(files, name, root, (*inside, name))


def _walk(
    files: Mapping[str, str], name: str, parent: ElementTree.Element, inside: tuple[str, ...]
) -> Iterator[tuple[str, str, bool]]:
    for element in parent:
        if element.tag == "property":
            yield from _property(element)
        elif element.tag == "configuration":
            yield from _walk(files, name, element, inside)
        elif element.tag == _INCLUDE:
            target = element.get("href", "")
            fallback = element.find(_FALLBACK)
            if target in files:
                yield from _properties(files, target, inside)
            elif fallback is not None:
                yield from _walk(files, name, fallback, inside)
            else:
                raise SiteFileError(
                    f"{name} includes {target!r}, which is not there",
                    hint="Put the file beside it, or join the two.",
                )


def _property(element: ElementTree.Element) -> Iterator[tuple[str, str, bool]]:
    def part(tag: str) -> str:
        child = element.find(tag)
        return element.get(tag, "") if child is None else "".join(child.itertext())

    name, value = part("name").strip(), part("value")
    if name:
        yield RENAMED.get(name, name), value, part("final") == "true"
