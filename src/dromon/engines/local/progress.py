"""How far the building of an environment has come, for those who wait. From uv's own words."""

# What uv says, or we say for it, at the beginning of each step.
STEPS = (
    ("starting",),
    ("resolving", "Resolved", "waiting"),
    ("Making",),
    ("Downloading", "Downloaded", "Building", "Built", "Prepared"),
    ("Installed", "Uninstalled"),
    ("Compiling", "Bytecode"),
)


def bar(doing: str) -> str:
    """ "[###··]": steps done, not time; some take much longer than others."""
    done = next((n for n, words in enumerate(STEPS) if doing.strip().startswith(words)), 0)
    return "[" + "#" * done + "·" * (len(STEPS) - 1 - done) + "]"
