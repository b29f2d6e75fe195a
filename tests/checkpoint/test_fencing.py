"""A driver that was suspended while another one took over its checkpoint: its later commits do not count.

The first driver commits. At each of its steps the second one takes over the lock, and does some or all of its work.
"""

from dataclasses import replace

import pytest

from pystorm_spark.checkpoint.memory import MemoryFiles
from pystorm_spark.checkpoint.part import read_sections, write_part
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.topology.durable import TaskKey

A = TaskKey("a", 0)
COMMITS = {"looks": 0, "begins": 0, "commits": 1, "commits twice": 2}  # of the second driver, until the first goes on


class Killed(BaseException):
    """The process of the first driver has ended."""


class Steps(MemoryFiles):
    """Files of one driver in a place that all share; before each step something may happen."""

    def __init__(self, shared):
        self._files = shared
        self.passed = 0
        self.at = None  # the step before which `happens` is called
        self.happens = lambda: None
        self.removes = True  # or is killed before it can

    def pass_step(self):
        if self.passed == self.at:
            self.happens()
        self.passed += 1

    def write(self, name, data):
        self.pass_step()
        super().write(name, data)

    def names(self):
        self.pass_step()
        return super().names()

    def remove(self, name):
        self.pass_step()
        if not self.removes:
            raise Killed
        super().remove(name)


class Driver:
    """Has the lock from its beginning on, until the next driver begins."""

    def __init__(self, world):
        self.world = world
        world.holder = self
        self.files = Steps(world.files)
        self.store = CheckpointStore(self.files, "words", check_holder=self.check, is_fenced=True)
        self.began_with = self.store.last.txid if self.store.last is not None else None

    def check(self):
        self.files.pass_step()
        if self.world.holder is not self:
            raise StormError("another driver has the checkpoint")

    def commit(self, text):
        self.check()
        last = self.store.last
        part = write_part(self.files, f"state-{last.txid + 1}-0", {A: text}, is_full=False)
        self.store.publish(replace(last, txid=last.txid + 1, parts=(*last.parts, part)))
        return self.store.last.txid


class World:
    def __init__(self):
        self.files = {}
        self.holder = None

    def committed(self):
        """What a driver would begin with."""
        files = Steps(self.files)
        return read_sections(files, CheckpointStore(files, "words").last.parts, {A})[A]


def first_with_two_commits(world):
    first = Driver(world)
    first.store.clean()
    for text in (b"1", b"2"):
        first.commit(text)
    first.files.passed = 0
    return first


def steps_of(work):
    """How many steps the first driver makes."""
    first = first_with_two_commits(World())
    work(first)
    return first.files.passed


def commits(first):
    return first.commit(b"3 of the first")


def commits_and_removes(first):
    write_part(first.files, "state-9-0", {A: b"of a slot that died"}, is_full=False)
    first.store.discard(lambda name: "-0-" in name)
    return commits(first)


@pytest.mark.parametrize("removes", [True, False], ids=["lives", "is killed"])
@pytest.mark.parametrize("work", [commits, commits_and_removes])
@pytest.mark.parametrize("progress", COMMITS)
def test_a_reported_commit_is_durable_at_whichever_step_another_driver_takes_over(work, progress, removes):
    for at in range(steps_of(work)):
        world, seconds = World(), []
        first = first_with_two_commits(world)

        def come(world=world, seconds=seconds, first=first):
            first.files.removes = removes
            second = Driver(world)
            seconds.append(second)
            if progress != "looks":
                second.store.clean()
            for text in by_second(progress):
                second.commit(text)

        first.files.at, first.files.happens = at, come
        told = None
        try:
            told = work(first)
        except (StormError, Killed):
            assert seconds, "nobody else was there"
        (second,) = seconds
        check(world, told, second, progress)


def check(world, told, second, progress):
    if told is not None:
        assert second.began_with == told, f"commit {told} was told, and the other driver began with another one"
    if progress == "looks":
        second.store.clean()
    assert world.committed() == [b"1", b"2", *[b"3 of the first"] * (second.began_with == 3), *by_second(progress)]
    second.commit(b"and on")
    assert world.committed()[-1] == b"and on"
    third = Driver(world)
    third.store.clean()
    needed = set().union(*(manifest.file_names() for manifest in third.store._kept))
    assert len([name for name in world.files if name.startswith("manifest-")]) == 2
    assert {name for name in world.files if not name.startswith("manifest-")} == needed


def by_second(progress):
    return [b"%d of the second" % number for number in range(COMMITS[progress])]


def test_a_driver_without_fences_goes_on_in_the_generation_that_it_finds():
    world = World()
    first = first_with_two_commits(world)
    store = CheckpointStore(first.files, "words")
    store.clean()
    store.publish(replace(store.last, txid=3))
    assert Driver(world).store.last.txid == 3


def test_a_manifest_that_came_too_late_does_not_hide_that_another_one_is_lost():
    world, late = World(), World()
    first = first_with_two_commits(world)
    first.files._files = late.files = dict(world.files)  # what it writes comes later
    commits(first)
    Driver(world).store.clean()
    world.files.update((name, data) for name, data in late.files.items() if f"-{3:020d}" in name or "state-3" in name)
    assert [manifest.txid for manifest in CheckpointStore(Steps(world.files), "words")._kept] == [1, 2]
    del world.files[f"manifest-{1:020d}-g000001"]
    with pytest.raises(CheckpointError, match=f"has lost a manifest, .* only manifest-{2:020d}-g000002"):
        CheckpointStore(Steps(world.files), "words")
