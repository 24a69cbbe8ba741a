import asyncio
from collections.abc import Awaitable, Callable

from dromon.agent.frames import Message
from dromon.engines.local.starts import Starts, running

WORLD: Message = {"op": "world", "world": {}}
STOP: Message = {"op": "stop", "grace": 0.0, "reason": "stop"}

Sent = list[tuple[int, str]]


def with_starts(cores: int, body: Callable[[Starts, Sent], Awaitable[None]]) -> Sent:
    async def main() -> Sent:
        sent: Sent = []

        def send(peer: int, message: Message) -> None:
            sent.append((peer, message["op"]))

        starts = Starts(asyncio.get_running_loop(), send, cores)
        await body(starts, sent)
        return sent

    return asyncio.run(main())


async def until(sent: Sent, count: int) -> None:
    async with asyncio.timeout(30):
        while len(sent) < count:
            await asyncio.sleep(0.002)


def worlds(peers: range) -> Sent:
    return [(peer, "world") for peer in peers]


def test_a_gang_as_large_as_the_machine_is_let_go_at_once() -> None:
    async def body(starts: Starts, sent: Sent) -> None:
        for peer in range(8):
            starts.send(peer, WORLD)

    assert with_starts(4, body) == worlds(range(8))


def test_of_a_larger_gang_the_next_one_starts_when_one_has_ended() -> None:
    async def body(starts: Starts, sent: Sent) -> None:
        for peer in range(5):
            starts.send(peer, WORLD)
        assert sent == worlds(range(2))
        starts.ended(1)
        assert sent == worlds(range(2))  # not before its agent can take the next
        await asyncio.sleep(0)
        assert sent == worlds(range(3))
        starts.ended(7)  # nobody who was waited for
        await asyncio.sleep(0)
        assert sent == worlds(range(3))

    with_starts(1, body)


def test_all_start_in_order_though_none_of_them_ends() -> None:
    async def body(starts: Starts, sent: Sent) -> None:
        for peer in range(40):
            starts.send(peer, WORLD)
        assert len(sent) < 40
        await until(sent, 40)

    assert with_starts(1, body) == worlds(range(40))


def test_what_an_agent_is_told_after_its_world_comes_after_it() -> None:
    async def body(starts: Starts, sent: Sent) -> None:
        for peer in range(5):
            starts.send(peer, WORLD)
        starts.send(4, STOP)
        assert sent == [(0, "world"), (1, "world"), (4, "world"), (4, "stop")]
        await until(sent, 6)

    assert with_starts(1, body)[4:] == [(2, "world"), (3, "world")]


def test_an_agent_that_is_gone_is_not_waited_for() -> None:
    async def body(starts: Starts, sent: Sent) -> None:
        for peer in range(5):
            starts.send(peer, WORLD)
        starts.ended(3)
        await until(sent, 4)

    assert with_starts(1, body) == [(0, "world"), (1, "world"), (2, "world"), (4, "world")]


def test_gangs_one_after_the_other_do_not_wait_for_members_long_started() -> None:
    async def body(starts: Starts, sent: Sent) -> None:
        for peer in range(6):
            starts.send(peer, WORLD)
            await until(sent, peer + 1)

    assert with_starts(1, body) == worlds(range(6))


def test_whoever_asks_is_running() -> None:
    assert running() >= 1
