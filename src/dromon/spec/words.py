"""How problems are put into words: what was found, and what was probably meant."""

import difflib
from collections.abc import Iterable
from itertools import islice

from pydantic_core import PydanticCustomError

from dromon.spec.path import Path, clipped


def wrong(text: str, suggestion: str = "", path: Path = ()) -> PydanticCustomError:
    """A problem in this product's own words; `path` leads on from the value being looked at."""
    told = {"text": text, "suggestion": suggestion, "path": path}
    return PydanticCustomError("dromon", "{text}", told)


def told(value: object) -> str:
    """What was found, for the end of "expected …, got …"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {clipped(repr(value))}"
    if isinstance(value, str):
        return clipped(repr(value))
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"a {type(value).__name__}"


def closest(word: object, known: Iterable[str]) -> str:
    """The known word most like this one, or nothing."""
    # Comparing is slow, and nobody has a thousand keys to choose from.
    some = [clipped(other) for other in islice(known, 500)]
    found = difflib.get_close_matches(clipped(str(word)), some, n=1, cutoff=0.6)
    return found[0] if found else ""


def nearest(word: object, known: Iterable[str]) -> str:
    """ "did you mean …?", or nothing."""
    found = closest(word, known)
    return f"did you mean {found}?" if found else ""


def choice(word: object, known: Iterable[str]) -> str:
    """What to write instead of a word that is not one of these."""
    return nearest(word, known) or f"one of {', '.join(known)}"
