"""A moment as people write it, `2026-11-20T08:00Z`, as the models' type: seconds since 1970."""

from datetime import datetime
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from dromon.spec.words import told, wrong

EXAMPLE = "2026-11-20T08:00Z"


def moment(value: object) -> float:
    if not isinstance(value, str):
        raise wrong(f"expected a moment such as {EXAMPLE}, got {told(value)}")
    try:
        found = datetime.fromisoformat(value.strip())
    except ValueError:
        hint = f"write for example {EXAMPLE}, or with an offset, 2026-11-20T08:00+01:00"
        raise wrong(f"{told(value)} is not a moment", hint) from None
    if found.tzinfo is None:
        # Whose midnight would it be: the administrator's, the server's or the user's?
        raise wrong(f"{told(value)} has no time zone", f"write {value.strip()}Z for UTC, or +01:00")
    return found.timestamp()


Moment = Annotated[
    float,
    PlainValidator(moment),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": [EXAMPLE]}),
]
