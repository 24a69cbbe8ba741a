"""Texts and names as the models' types: each with the sentence for a wrong one, and its schema."""

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from dromon.spec.words import told, wrong

NAME_LIMIT = 33  # with a dash and six characters it makes an id of 40
ROLE_LIMIT = 16  # an id, a role and a number of five digits make a DNS label of 63

_LABEL = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/:@-]*[A-Za-z0-9])?")


def _label(limit: int) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str):
            raise wrong(f"expected a name, got {told(value)}")
        if len(value) <= limit and _LABEL.fullmatch(value):
            return value
        if len(value) > limit:
            raise wrong(f"a name here has at most {limit} characters, this one {len(value)}")
        slug = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-").lstrip("0123456789-")
        raise wrong(
            f"{told(value)} is not a name: small letters, digits and dashes, a letter first",
            f"did you mean {slug}?" if slug else "",
        )

    return check


def _variable(value: object) -> str:
    if isinstance(value, str) and _VARIABLE.fullmatch(value) and len(value) <= 256:
        return value
    raise wrong(f"{told(value)} is not the name of a variable")


def word(value: object) -> str:
    if not isinstance(value, str):
        raise wrong(f"expected a name, got {told(value)}")
    if len(value) <= 253 and _WORD.fullmatch(value):
        return value
    raise wrong(f"{told(value)} is not a name")


def _relative(value: object) -> str:
    if not isinstance(value, str):
        raise wrong(f"expected a path, got {told(value)}")
    problem = path_problem(value)
    if problem:
        raise wrong(problem)
    return value


def path_problem(path: str) -> str:
    """Why this is no path inside the working directory; empty when it is one."""
    if not path.strip() or "\0" in path:
        return "an empty path" if not path.strip() else "a path with a NUL character"
    if path.startswith(("/", "~")):
        return f"{told(path)} is absolute; expected a path relative to the working directory"
    if ".." in path.split("/"):
        return f"{told(path)} leads out of the working directory"
    return ""


# NUL ends a C string, so no command, variable or path can carry one. The pattern runs inside
# pydantic's core; a lone surrogate is refused there too.
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Filled = Annotated[str, Field(pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")]
JobName = Annotated[
    str, PlainValidator(_label(NAME_LIMIT)),
    WithJsonSchema({"type": "string", "pattern": f"^{_LABEL.pattern}$", "maxLength": NAME_LIMIT}),
]  # fmt: skip
RoleName = Annotated[
    str, PlainValidator(_label(ROLE_LIMIT)),
    WithJsonSchema({"type": "string", "pattern": f"^{_LABEL.pattern}$", "maxLength": ROLE_LIMIT}),
]  # fmt: skip
VolumeName = Annotated[
    str, PlainValidator(_label(NAME_LIMIT)),
    WithJsonSchema({"type": "string", "pattern": f"^{_LABEL.pattern}$", "maxLength": NAME_LIMIT}),
]  # fmt: skip
Variable = Annotated[
    str, PlainValidator(_variable),
    WithJsonSchema({"type": "string", "pattern": f"^{_VARIABLE.pattern}$"}),
]  # fmt: skip
Word = Annotated[str, PlainValidator(word), WithJsonSchema({"type": "string", "minLength": 1})]
RelativePath = Annotated[
    str, PlainValidator(_relative), WithJsonSchema({"type": "string", "minLength": 1})
]
