"""The reference page of the job file, written from the models.

`python -m dromon.spec.reference docs/reference/job-file.md` writes it.
"""

import json
import sys
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dromon import frameworks
from dromon.lifecycle.plan import ACTIONS, EVENTS
from dromon.spec import names, quantities, values
from dromon.spec.interpolate import FACTS
from dromon.spec.keys import SHORT_KEYS, bare, is_part
from dromon.spec.model import Acls, Environment, Job, Part, Resources, Retries, Role, Volume
from dromon.units import format_duration

Kinds = dict[Any, str]  # a type of the models -> what the page calls it

HEAD = """\
# The job file

<!-- Made from the models by `python -m dromon.spec.reference`; do not edit. -->

A job file is YAML 1.2. Everything but a command has a default. Unknown keys are errors; all
problems are reported at once, each with its place: `dromon check FILE` looks without running.

```yaml
command: python train.py
```

is a whole job file: the *short form*, where a role's own keys ({short})
stand at the top and describe one role called `worker`. The long form names its roles:

```yaml
name: unet3d
framework: torch
roles:
  worker:
    replicas: 4
    command: python train.py --epochs ${{config.epochs}}
    resources: {{cpus: 4, memory: 16GiB, gpus: 1}}
config: {{epochs: 100}}
```

Any key can be set on the command line, in either form: `dromon run job.yaml replicas=8
roles.worker.resources.gpus=2 config.epochs=10`. Lists and mappings are written as in YAML:
`'outputs=[model, logs]'`. A key with a dot in it is quoted: `'config."a.b"=1'`.

Sizes are written `512MiB`, `16GiB`, `1.5TB`; durations `90s`, `10m`, `2h`, `1h30m`, or a number of
seconds. Texts that look like numbers need quotes: `python: "3.10"`.
"""

TAIL = """\
## Frameworks and their roles

{frameworks}

## Events and actions

Events of `policies`: {events}, `exit_code:N` (0 to 255), `pending:10m`.
Actions: {actions}.
A role's own policy beats the job's, and `exit_code:N` beats `member_failed`.

## Placeholders

| written | stands for |
|---|---|
| `${{config.a.b}}` | a value of `config`; values of `config` may refer to each other |
| `${{volumes.NAME}}` | the path of a volume on the node |
| {facts} | facts about the job |
| `$${{` | `${{` itself |

Any other `${{X}}` is left to the shell. Placeholders are filled in in `command`, `env`, the sources
of `volumes`, `outputs`, `tensorboard` and `config`. A text in `config` that is one placeholder and
nothing else takes the value as it is: a number stays a number.

## Limits

A job file has at most 1 MiB and 50,000 values with its aliases written out. Names of jobs have at
most {name} characters, names of roles {role}; both are small letters, digits and dashes, a letter
first. Aliases and merge keys (`<<: *base`) are understood; tags are not.
"""

SECTIONS: tuple[tuple[str, str, type[Part]], ...] = (
    ("The job", "", Job),
    ("roles.NAME", "A group of like members.", Role),
    ("roles.NAME.resources", "What one member gets.", Resources),
    ("environment", "What the code needs installed. At most one source of packages.", Environment),
    ("volumes.NAME", "Data from somewhere, given to each member as a path.", Volume),
    ("retries", "Preemption and lost nodes never count.", Retries),
    ("acls", "Who else may look or act.", Acls),
)


def render() -> str:
    short = ", ".join(f"`{key}`" for key in Role.model_fields if key in SHORT_KEYS)
    parts = [HEAD.format(short=short)]
    for title, about, model in SECTIONS:
        parts.append(section(f"`{title}`" if title != "The job" else title, about, model))
    parts.append(
        TAIL.format(
            frameworks=_frameworks(),
            events=", ".join(f"`{event}`" for event in EVENTS),
            actions=", ".join(f"`{action}`" for action in ACTIONS),
            facts=", ".join(f"`${{job.{fact}}}`" for fact in FACTS),
            name=names.NAME_LIMIT,
            role=names.ROLE_LIMIT,
        )
    )
    return "\n".join(parts)


def section(heading: str, about: str, model: type[Part], kinds: Kinds | None = None) -> str:
    """A heading and the table of a model's keys. `kinds`: what its own types are called."""
    known = {**KINDS, **(kinds or {})}
    lines = [f"## {heading}\n", f"{about}\n"] if about else [f"## {heading}\n"]
    lines += ["| key | value | default | |", "|---|---|---|---|"]
    lines += [_row(name, field, known) for name, field in model.model_fields.items()]
    return "\n".join(lines) + "\n"


def _frameworks() -> str:
    lines = ["| framework | roles |", "|---|---|"]
    for name, roles in frameworks.ROLES.items():
        named = ", ".join(f"`{role}`" for role in sorted(roles)) if roles else "any"
        lines.append(f"| `{name}` | {named} |")
    return "\n".join(lines)


def _row(name: str, field: FieldInfo, kinds: Kinds) -> str:
    kind = _kind(field, kinds)
    cells = (f"`{name}`", kind, _default(field, kind), field.description or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


KINDS: Kinds = {
    quantities.Size: "size",
    quantities.Duration: "duration",
    quantities.PositiveDuration: "duration",
    quantities.Gpus: "number or mapping",
    quantities.Priority: "name or whole number",
    quantities.Cpus: "number",
    quantities.Replicas: "whole number",
    values.Command: "text or list of texts",
    values.Plain: "mapping",
}


def _kind(field: FieldInfo, kinds: Kinds) -> str:
    # pydantic takes the outermost Annotated apart, so the kind is found by its validators.
    for kind, name in kinds.items():
        marks = kind.__metadata__
        if field.annotation == kind.__origin__ and marks[0] in field.metadata:
            return name
        if kind in get_args(field.annotation):
            return name
    return _plain_kind(bare(field.annotation)[0])


def _plain_kind(kind: Any) -> str:
    if get_origin(kind) is list:
        return f"list of {_plain_kind(bare(get_args(kind)[0])[0])}s"
    if get_origin(kind) is dict:
        return f"mapping to {_plain_kind(bare(get_args(kind)[1])[0])}s"
    if is_part(kind):
        return "mapping"
    words = get_args(kind)
    if words and all(isinstance(word, str) for word in words):
        return " or ".join(f"`{word}`" for word in words)
    return {str: "text", bool: "true or false", int: "whole number", float: "number"}[kind]


def _default(field: FieldInfo, kind: str) -> str:
    if field.default is PydanticUndefined or field.default in (None, ""):
        return ""
    if kind == "duration":
        said = format_duration(field.default).removesuffix("00s") if field.default else "0s"
        return f"`{said}`"
    if isinstance(field.default, float):
        return f"`{field.default:g}`"
    shown = field.default if isinstance(field.default, str) else json.dumps(field.default)
    return f"`{shown}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
