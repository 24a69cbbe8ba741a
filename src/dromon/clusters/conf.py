"""`volcano-scheduler.conf` as Volcano reads it, and what it refuses or passes over in silence.

What the plug-ins then do to each other is judged in `evictions`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dromon.clusters.findings import ERROR, WARNING, Finding
from dromon.clusters.objects import Object
from dromon.clusters.vocabulary import ACTIONS, GONE_ACTIONS, PLUGIN_KEYS, PLUGINS, SWITCHES
from dromon.spec.path import Path
from dromon.spec.words import choice, closest, told

REFUSED = (
    "Volcano refuses the whole file and goes on with the configuration it had before (at its "
    "start: enqueue, allocate, backfill); only its log says so"
)
# Volcano's parser is older than YAML 1.2: these are truth values to it.
_WORDS = {
    **dict.fromkeys(("y", "yes", "on", "true"), True),
    **dict.fromkeys(("n", "no", "off", "false"), False),
}
_GO_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Plugin:
    name: str
    tier: int  # from 0
    path: Path
    switches: dict[str, bool]

    def has(self, switch: str) -> bool:
        """All are on unless they are turned off, but for the hierarchy."""
        return self.switches.get(switch, switch != "enableHierarchy")


@dataclass(slots=True)
class Conf:
    source: Object
    actions: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> place, in order
    plugins: list[Plugin] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    is_refused: bool = False

    def find(self, name: str) -> Plugin | None:
        return next((plugin for plugin in self.plugins if plugin.name == name), None)

    def is_asked(self, name: str, switch: str) -> bool:
        """Whether the plug-in is there and does this."""
        return any(plugin.name == name and plugin.has(switch) for plugin in self.plugins)

    def place(self, plugin: Plugin | None, key: str = "") -> tuple[int, int]:
        if plugin is None:
            return self.source.place("tiers", at_key=True)
        known = key and key in plugin.switches
        return self.source.place(*plugin.path, key) if known else self.source.place(*plugin.path)

    def finding(
        self, place: tuple[int, int], severity: str, rule: str, what: str, why: str, remedy: str
    ) -> Finding:
        return Finding(self.source.file, *place, severity, rule, what, why, remedy)


def is_conf(data: Any) -> bool:
    """Whether a document looks like the scheduler's configuration and no object."""
    return isinstance(data, dict) and "kind" not in data and ("actions" in data or "tiers" in data)


def read_conf(source: Object) -> Conf:
    conf = Conf(source)
    data = source.data
    if not isinstance(data, dict):
        _refuse(conf, (), f"expected actions: and tiers:, got {told(data)}", "write both")
        return conf
    for key in data:
        if key not in ("actions", "tiers", "configurations", "metrics"):
            known = ("actions", "tiers", "configurations", "metrics")
            _ignored(conf, (key,), key, choice(key, known), ERROR)
    _actions(conf, data.get("actions"))
    _tiers(conf, data.get("tiers"))
    _configurations(conf, data.get("configurations"))
    return conf


def _refuse(conf: Conf, path: Path, text: str, remedy: str, at: tuple[int, int] = (0, 0)) -> None:
    conf.is_refused = True
    place = at if at[0] else conf.source.place(*path)
    conf.findings.append(
        conf.finding(place, ERROR, "refused", f"this configuration never takes effect: {text}",
                     REFUSED, remedy)
    )  # fmt: skip


def _ignored(conf: Conf, path: Path, name: str, remedy: str, severity: str) -> None:
    conf.findings.append(
        conf.finding(conf.source.place(*path, at_key=True), severity, "ignored",
                     f"{name} has no effect", "Volcano passes over keys it does not know, without "
                     "a word", remedy)
    )  # fmt: skip


# --- actions


def _actions(conf: Conf, given: Any) -> None:
    if not isinstance(given, str):
        text = "there are no actions" if given is None else "actions is not one text"
        shown = ", ".join(map(str, given)) if isinstance(given, list) else "enqueue, allocate"
        _refuse(conf, ("actions",), text, f'write actions: "{shown}"')
        return
    line, column = conf.source.place("actions")
    quoted = conf.source.raw("actions") is None and conf.source.at is None
    at = column + (1 if quoted else 0)
    for word in given.split(","):
        name = word.strip()
        place = (line, at + len(word) - len(word.lstrip()))
        if conf.source.at is not None:
            place = conf.source.at
        at += len(word) + 1
        if name not in ACTIONS:
            _refuse(conf, (), f"there is no action {name!r}", _instead(name), place)
            continue
        if ACTIONS[name]:
            conf.findings.append(
                conf.finding(place, WARNING, "newer-action",
                             f"before Volcano {ACTIONS[name]} this configuration never takes "
                             f"effect: there is no action {name!r}", REFUSED,
                             f"make sure that Volcano is {ACTIONS[name]} or newer")
            )  # fmt: skip
        if name in conf.actions:
            conf.findings.append(
                conf.finding(place, WARNING, "twice", f"{name} runs twice in every cycle",
                             "each name in the list is an action that is run", "keep one")
            )  # fmt: skip
        conf.actions.setdefault(name, place)


def _instead(name: str) -> str:
    if not name:
        return "remove the comma that nothing follows, or name the actions"
    if name in GONE_ACTIONS:
        return "leave it out: newer releases do not have it; queues have a guarantee instead"
    if name.lower() in ACTIONS:
        return f"write {name.lower()}: names of actions have small letters only"
    return choice(name, ACTIONS)


# --- tiers


def _tiers(conf: Conf, tiers: Any) -> None:
    if tiers is None:
        conf.findings.append(
            conf.finding(conf.source.place(), ERROR, "no-plugins", "nothing decides who runs where",
                         "without tiers there is no plug-in: no gangs, no shares, no priorities, "
                         "not even a look at taints and selectors", "add tiers: with plug-ins")
        )  # fmt: skip
        return
    if not isinstance(tiers, list):
        _refuse(conf, ("tiers",), "tiers is not a list", "write tiers: [{plugins: […]}, …]")
        return
    for tier, body in enumerate(tiers):
        path: Path = ("tiers", tier)
        if not isinstance(body, dict):
            _refuse(conf, path, f"tier {tier + 1} has no plugins:", "write - plugins: […]")
            continue
        for key in body:
            if key != "plugins":
                _ignored(conf, (*path, key), key, choice(key, ("plugins",)), ERROR)
        plugins = body.get("plugins") or []
        if not isinstance(plugins, list):
            _refuse(conf, (*path, "plugins"), "plugins is not a list", "write - name: … for each")
            continue
        for at, plugin in enumerate(plugins):
            _plugin(conf, tier, (*path, "plugins", at), plugin)
    hierarchical = {p.tier for p in conf.plugins if p.name == "drf" and p.has("enableHierarchy")}
    for plugin in conf.plugins:
        if plugin.name == "proportion" and plugin.tier in hierarchical:
            text = "proportion stands beside drf with enableHierarchy"
            _refuse(conf, plugin.path, text, "use capacity with enableHierarchy in place of both")


def _plugin(conf: Conf, tier: int, path: Path, body: Any) -> None:
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        _refuse(conf, path, "a plug-in has no name", "write - name: priority")
        return
    name = body["name"]
    switches = {}
    for key, value in body.items():
        if key not in PLUGIN_KEYS:
            _ignored(conf, (*path, key), key, choice(key, PLUGIN_KEYS), ERROR)
        elif key in SWITCHES and value is not None:
            told_by = _truth(value, conf.source.raw(*path, key))
            if told_by is None:
                _refuse(conf, (*path, key), f"{key} is {told(value)}, no truth value",
                        "write true or false, without quotes")  # fmt: skip
            else:
                switches[key] = told_by
    if name not in PLUGINS:
        near = closest(name.lower().replace("_", "-"), PLUGINS)
        conf.findings.append(
            conf.finding(conf.source.place(*path, "name"), ERROR, "unknown-plugin",
                         f"the plug-in {name!r} does nothing",
                         "there is none of that name; Volcano goes on without it and only its log "
                         "says so (unless it was built with a plug-in of your own)",
                         f"did you mean {near}?" if near else f"one of {', '.join(PLUGINS)}")
        )  # fmt: skip
    elif conf.find(name):
        conf.findings.append(
            conf.finding(conf.source.place(*path, "name"), WARNING, "twice",
                         f"{name} is there twice, and asked twice",
                         "both places ask the same plug-in, with the arguments of the last",
                         "keep one")
        )  # fmt: skip
    conf.plugins.append(Plugin(name, tier, path, switches))
    _arguments(conf, name, (*path, "arguments"), body.get("arguments"))


def _truth(value: Any, raw: str | None) -> bool | None:
    if isinstance(value, bool):
        return value
    # In quotes it is a text, which the parser does not take.
    return _WORDS.get(value.lower()) if isinstance(value, str) and raw is not None else None


def _arguments(conf: Conf, name: str, path: Path, given: Any) -> None:
    if given is None or name not in PLUGINS:
        return
    if not isinstance(given, dict):
        _refuse(conf, path, "arguments is not a mapping", "write arguments: {KEY: VALUE}")
        return
    known = PLUGINS[name]
    if known is None:
        return
    for key, value in given.items():
        family = next((k for k in known if k.endswith(".") and key.startswith(k)), "")
        kind = known.get(key) or known.get(family)
        if kind is None:
            remedy = choice(key, known) if known else f"leave it out: {name} takes no arguments"
            _ignored(conf, (*path, key), key, remedy, WARNING)
        elif why := "; ".join(_unusable(key, kind, value)):
            conf.findings.append(
                conf.finding(conf.source.place(*path, key), WARNING, "ignored",
                             f"{key} has no effect", f"{why}; Volcano keeps its own value and "
                             "only its log says so", "write " + _example(key, kind))
            )  # fmt: skip


def _unusable(key: str, kind: type, value: Any) -> Iterator[str]:
    number = type(value) in (int, float)
    if key == "sla-waiting-time":
        # 1d and 1w are no durations to Go.
        if not isinstance(value, str) or _GO_DURATION.sub("", value) or not value:
            yield f"{told(value)} is no duration to Volcano"
    elif key == "overcommit-factor":
        if not number or value < 1:
            yield f"{told(value)} is no number of 1 or more"
    elif kind is int and type(value) is not int:
        yield f"{told(value)} is no whole number"
    elif kind is bool and _truth(value, "") is None:
        yield f"{told(value)} is neither true nor false"
    elif kind is str and not isinstance(value, str):
        yield f"{told(value)} is no text"


def _example(key: str, kind: type) -> str:
    if key == "sla-waiting-time":
        return "it with h, m and s, as 36h"
    return {int: "a whole number without quotes", bool: "true or false",
            float: "a number of 1 or more", str: "a text"}.get(kind, "another")  # fmt: skip


def _configurations(conf: Conf, given: Any) -> None:
    if not isinstance(given, list):
        if given is not None:
            _refuse(conf, ("configurations",), "configurations is not a list",
                    "write - name: ACTION for each")  # fmt: skip
        return
    for at, each in enumerate(given):
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str):
            _refuse(conf, ("configurations", at), "it names no action", "write - name: ACTION")
        elif name not in ACTIONS:
            _ignored(conf, ("configurations", at, "name"), f"what is set for {name!r}",
                     choice(name, ACTIONS), WARNING)  # fmt: skip
