"""The reference page of the site file, written from the models. `make docs` writes it."""

from dromon.site import model, moments
from dromon.spec.model import Part
from dromon.spec.reference import Kinds, section

HEAD = """\
# The site file

<!-- Made from the models by `make docs`; do not edit. -->

One file says what the queues of a machine or of a cluster may have, which classes of priority
there are, and what is kept for whom. It is YAML, checked like a job file: unknown keys are errors,
and all problems are told at once, each with its place. How to use it:
[queues](../howto/queues.md).

This machine's is the one `$DROMON_SITE` names, else `site.yaml` beside the contexts
(`$DROMON_CONFIG`, else `~/.config/dromon`), else `/etc/dromon/site.yaml`. `dromon cluster render
volcano` makes Volcano's configuration from the same file and says what Volcano cannot hold.

Amounts are `{cpus: 8, memory: 64GiB, gpus: 4}`; of what is left out nothing is said. GPUs can be
given by kind, `gpus: {a100: 4}`. Sizes and durations are written as in the job file; moments as
`2026-11-20T08:00Z`, or with an offset, `2026-11-20T08:00+01:00`.
"""

KINDS: Kinds = {
    model.ManyGpus: "number or mapping",
    moments.Moment: "moment",
    model.Hours: "number",
    model.Count: "whole number",
    model.Weight: "whole number",
}
SECTIONS: tuple[tuple[str, str, type[Part]], ...] = (
    ("The file", "", model.Site),
    ("`queues.NAME`", "Where jobs of one tenant wait. Only a queue with none below it takes jobs.",
     model.Queue),
    ("`priorities.NAME`", "A number alone stands for `{value: NUMBER}`. Without any, jobs may say "
     "`low` (10), `normal` (50), `high` (90), `urgent` (100) or a number.", model.PriorityClass),
    ("`users.NAME`", "What is said of one user, in all queues together.", model.User),
    ("`reservations.NAME`", "For a user or for a queue. Others start meanwhile only what ends "
     "before it, by its `max_duration`, or what leaves enough GPUs.", model.Reservation),
    ("Amounts", "`total`, `deserved`, `guarantee`, `limit`, `user_limit`.", model.Amounts),
    ("Budgets", "GPU-hours, counted anew from midnight, from Monday, from the first of the month, "
     "in UTC. Once it is used up nothing more starts; what runs goes on.", model.Budget),
    ("People", "`submit`, `admins`.", model.People),
    ("`kubernetes`", "", model.Kubernetes),
)  # fmt: skip


def render() -> str:
    sections = (section(heading, about, part, KINDS) for heading, about, part in SECTIONS)
    return "\n".join([HEAD, *sections])
