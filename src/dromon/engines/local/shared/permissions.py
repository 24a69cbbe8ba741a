"""What the site allows whom, asked with what the kernel says of the caller."""

from collections.abc import Callable

from dromon.engines.local import admission
from dromon.engines.local.shared.people import Person
from dromon.sched.events import JobSubmitted
from dromon.site import access
from dromon.site.model import Site


class Permissions:
    """`site` gives what is in force; the account the arbiter runs under, and root, are admins."""

    def __init__(self, site: Callable[[], Site], uid: int) -> None:
        self._site = site
        self._uid = uid

    def is_admin(self, person: Person) -> bool:
        own = person.uid in (0, self._uid)
        return own or access.is_admin(self._site(), person.name, person.groups)

    def check(self, person: Person, job: JobSubmitted) -> None:
        """Raises Refused. The daemon has looked at the whole request already; here it is made sure
        that it has not lied."""
        request = {
            "queue": job.queue,
            "gang": {"max_duration": job.max_duration},
            "preemptible": job.preemptible,
            "job": {"priority": None},
        }
        site, name, groups = self._site(), person.name, person.groups
        if admission.admitted(site, request, name, groups)["priority"] != job.priority:
            asked = {**request, "job": {"priority": job.priority}}
            admission.admitted(site, asked, name, groups)
