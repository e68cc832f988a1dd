"""Who waits for a record or an entity, and how they are told. Lives on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from fencegate.ledger.protocol import Topic


class Watcher:
    """One waiter. A change between two waits is not lost."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    async def changed(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def tell(self) -> None:
        self._changed.set()


class Watching:
    """The waiters of one process, by what they wait for. Costs nothing while nobody waits."""

    def __init__(self) -> None:
        self._watchers: dict[Topic, set[Watcher]] = {}

    @contextmanager
    def watch(self, topic: Topic) -> Iterator[Watcher]:
        watcher = Watcher()
        self._watchers.setdefault(topic, set()).add(watcher)
        try:
            yield watcher
        finally:
            watchers = self._watchers[topic]
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[topic]

    @property
    def topics(self) -> Collection[Topic]:
        return self._watchers.keys()

    def tell(self, topics: Iterable[Topic]) -> None:
        """Wake all who wait for one of these."""
        if not self._watchers:
            return
        for topic in topics:
            for watcher in self._watchers.get(topic, ()):
                watcher.tell()
