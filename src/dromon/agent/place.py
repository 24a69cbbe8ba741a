"""What an agent leaves to the place it runs in. Here: a place that has nothing to add.

On one machine the record is a directory that daemon and agents share, and nothing of this is
needed. Where an agent has a node's directory to itself (a container), its engine gives it a place
that lays out working directories, brings home what a run leaves, and finds a coordinator that has
moved. What takes long is done in threads of the place's own; it calls `wake` when there is news.
"""

from typing import Callable, List

from dromon.agent.frames import Message
from dromon.agent.plan import AgentPlan


class Place:
    def open(self, wake: Callable[[], None]) -> None:
        """The agent lives; call `wake`, from any thread, whenever one of the answers changed."""

    def lay_out(self, plan: AgentPlan) -> bool:
        """Make ready for this run. False: under way; `wake` when it is done, and ask again.

        An OSError is the end of the run, with its words."""
        return True

    def bring_home(self, plan: AgentPlan) -> bool:
        """The run is over; save what must outlive this place. False as above: nobody hears of
        the end before it is True."""
        return True

    def seek(self) -> None:
        """The coordinator does not answer where it was; look for it. Must not block."""

    def orphaned(self) -> None:
        """Nobody came for long, or can come: the agent leaves untold."""

    def hear(self, message: Message) -> None:
        """Words of the coordinator that are not for the agent itself. Must not block."""

    def words(self) -> List[Message]:
        """What is to be told to the coordinator; each is given once."""
        return []
