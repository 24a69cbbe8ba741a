"""The thread that beats: it owns the asks, says what changed, and passes on what it hears.

The ResourceManager is asked often while containers are awaited, and rarely otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from dromon.engines.yarn.am.asks import Asks, Container
from dromon.engines.yarn.am.scheduler import AskRefused, Heard, Scheduler, Superseded
from dromon.errors import EngineError

BUSY, IDLE = 0.25, 1.0  # seconds between two beats


@dataclass(frozen=True)
class News:
    """What a beat brought. `granted`: containers with the role each is for."""

    heard: Heard
    granted: tuple[tuple[Container, str], ...] = ()
    shortages: tuple[tuple[str, str], ...] = ()  # role, what its containers came without


class Beats:
    """`on_news` and `on_end` are called from the thread; after `on_end` it beats no more."""

    def __init__(
        self,
        scheduler: Scheduler,
        asks: Asks,
        on_news: Callable[[News], None],
        on_end: Callable[[EngineError], None],
    ) -> None:
        self._scheduler = scheduler
        self._asks = asks
        self._on_news = on_news
        self._on_end = on_end
        self._todo: list[Callable[[Asks], None]] = []
        self._news = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._beat, name="beats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tell(self, change: Callable[[Asks], None]) -> None:
        """To be done to the asks before the next beat, which comes at once."""
        with self._news:
            self._todo.append(change)
            self._news.notify_all()

    def stop(self) -> None:
        """No beat any more once this returns."""
        with self._news:
            self._over = True
            self._news.notify_all()
        self._thread.join()

    def _beat(self) -> None:
        while True:
            with self._news:
                if not self._todo and not self._over:
                    self._news.wait(IDLE if self._asks.is_complete else BUSY)
                if self._over:
                    return
                todo, self._todo = self._todo, []
            for change in todo:
                change(self._asks)
            try:
                self._on_news(self._listen())
            except (Superseded, AskRefused) as error:
                self._on_end(error)
                return
            except EngineError:
                continue  # nobody answers; the client below has been patient already

    def _listen(self) -> News:
        heard = self._scheduler.allocate()
        granted = []
        for container in heard.allocated:
            role = self._asks.allocated(container)
            if role is not None:
                granted.append((container, role))
        for done in heard.completed:
            self._asks.completed(done.id)
        return News(heard, tuple(granted), tuple(self._asks.shortages.items()))
