"""A file of secrets: NAME=VALUE lines that nobody but their owner can read.

It gives values to names the job asks for (`secrets:`, `--secret`, `env: {NAME: null}`); it asks
for nothing by itself. No value is ever part of a message.
"""

from __future__ import annotations

import os

from dromon.errors import UsageError

LINES = "A file of secrets has a NAME=VALUE on each line."


def read(path: str) -> dict[str, str]:
    """The values by name. Refused when somebody else can read the file, or made it."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_mode & 0o077:
                raise UsageError(
                    f"{path}: others may read it (mode {about.st_mode & 0o777:04o})",
                    hint=f"`chmod 600 {path}`, and take the secrets in it for known.",
                )
            if about.st_uid != os.getuid():
                raise UsageError(
                    f"{path}: it belongs to another user", hint="Make a file of yours."
                )
            text = file.read(1 << 20).decode()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=LINES) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a text file (UTF-8)", hint=LINES) from None
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier():
            raise UsageError(f"{path}:{number}: not NAME=VALUE", hint=LINES)
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name] = value
    return found
