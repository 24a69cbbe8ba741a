"""A world, made here or come as JSON."""

import json

import pytest

from dromon.frameworks.world import Member, World

MEMBERS = (
    Member("chief", 0, 0, "a", (4000,), gpus=1),
    Member("worker", 0, 1, "b", (), processes=2),
    Member("worker", 1, 2, "c"),
)
MADE = World("job", 2, "torch", MEMBERS)
CAME = World.from_json(json.loads(json.dumps(MADE.to_json())))

both = pytest.mark.parametrize("world", [MADE, CAME], ids=["made", "came"])


@both
def test_a_world_knows_its_members(world: World):
    assert world.size == 3
    assert [world.member(m.role, m.index) for m in MEMBERS] == list(MEMBERS)
    assert world.members == MEMBERS
    assert world.of("worker") == MEMBERS[1:]
    assert world.roles == ("chief", "worker")


def test_a_world_survives_json():
    came = World.from_json(MADE.to_json())
    assert came == MADE
    assert hash(came) == hash(MADE)
    assert came.to_json() == MADE.to_json()


@both
def test_a_world_has_no_other_names(world: World):
    with pytest.raises(AttributeError):
        world.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        world.job = "another"  # type: ignore[misc]
