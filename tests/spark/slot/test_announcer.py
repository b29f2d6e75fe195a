"""Tuples that have ended the process of a slot: the book that the driver keeps, and what a slot does with them."""

import socket
import threading

import pytest

from pystorm_spark import TopologyBuilder
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.poison import Poison
from pystorm_spark.spark.protocol.messages import Doing, Outlived
from pystorm_spark.spark.protocol.outgoing import Outgoing
from pystorm_spark.spark.protocol.wire import Connection
from pystorm_spark.spark.slot.announcer import Announcer
from tests.runtime.slots import HoldingBolt, Mesh, ScriptedSpout


class Announced:
    """A slot whose calls are announced; what was told."""

    def __init__(self, slots=1):
        builder = TopologyBuilder()
        builder.set_spout("spout", ScriptedSpout())
        builder.set_bolt("bolt", HoldingBolt(), slots).all_grouping("spout")
        self.mesh = Mesh(builder.create_topology(), slots)
        self.slot = self.mesh.slots[-1]
        self.told = []
        self.announcer = Announcer(self.told.append)
        self.announcer.is_starting = False
        self.slot.before_calls(self.announcer.announce)

    def execute(self, label="root", message_id="id"):
        self.mesh.spout().emit(label, message_id=message_id)
        self.mesh.settle()
        return self.seen()

    def seen(self):
        return self.mesh.bolt(index=-1).seen

    def keys(self):
        """Those of the tuples that were announced."""
        return [told.key for told in self.told if isinstance(told, Doing) and told.key]

    def key_of(self, *args, **options):
        self.announcer.is_careful = True
        self.execute(*args, **options)
        self.announcer.is_careful = False
        key = self.keys()[-1]
        self.told.clear()
        return key

    def look(self, busy=False):
        self.announcer.look(self.slot, busy)
        self.mesh.settle()


@pytest.fixture(params=[1, 2], ids=["in its own slot", "in another slot"])
def announced(request):
    return Announced(request.param)


def test_a_replay_is_known_again(announced):
    assert announced.key_of("root", "id") == announced.key_of("root", "id")


def test_a_replay_with_a_new_message_id_is_known_again(announced):
    assert announced.key_of("root", "id") == announced.key_of("root", "another")


def test_a_tuple_is_known_in_each_slot():
    keys = [Announced(slots).key_of("root", "id") for slots in (1, 2)]
    assert keys[0] == keys[1]


def test_other_values_are_another_tuple(announced):
    assert announced.key_of("root", "id") != announced.key_of("another", "id")


def test_a_condemned_tuple_fails_unexecuted_and_is_reported(announced):
    key = announced.key_of()
    announced.announcer.note_poison([], [key])
    before = len(announced.seen())
    stats = announced.mesh.task("bolt", -1).counted()
    executed = stats.executed

    announced.execute()

    assert len(announced.seen()) == before
    assert announced.mesh.spout().failed == ["id"]
    task = announced.mesh.task("bolt", -1)
    assert "topology.poison.deaths" in task.errors[-1].exception
    assert task.counted().executed == executed
    assert announced.execute("another", "another")[-1] == "another"


def test_a_suspect_waits_until_the_slot_has_nothing_else_to_do(announced):
    key = announced.key_of()
    announced.announcer.note_poison([key], [])
    before = len(announced.seen())
    announced.execute()
    announced.look(busy=True)
    announced.announcer.is_careful = True
    announced.look()
    assert len(announced.seen()) == before
    announced.announcer.is_careful = False
    announced.look()
    assert announced.seen()[before:] == ["root"]


def test_a_suspect_does_not_wait_for_ever(announced):
    announced.announcer.note_poison([announced.key_of()], [])
    before = len(announced.seen())
    announced.execute()
    announced.look(busy=True)
    announced.mesh.clock.now += 4
    announced.look(busy=True)
    assert announced.seen()[before:] == ["root"]


def test_a_suspect_is_announced_and_that_it_was_outlived(announced):
    key = announced.key_of()
    announced.announcer.note_poison([key], [])
    announced.execute()
    announced.look()
    assert announced.keys() == [key]
    assert Outlived(key, 0) in announced.told
    announced.look()
    assert announced.slot.slot_context.before is None


def test_what_was_put_off_is_executed_when_an_equal_tuple_was_outlived_elsewhere(announced):
    announced.announcer.note_poison([announced.key_of()], [])
    before = len(announced.seen())
    announced.execute()
    announced.look(busy=True)

    announced.announcer.note_poison([], [])
    announced.announcer.attach(announced.slot)
    announced.mesh.settle()

    assert announced.seen()[before:] == ["root"]
    assert not announced.slot.is_at_work()


def test_what_was_put_off_is_executed_when_an_equal_tuple_was_outlived_here(announced):
    announced.announcer.note_poison([announced.key_of()], [])
    before = len(announced.seen())
    announced.execute()
    announced.announcer.note_poison([], [])

    announced.look(busy=True)

    assert announced.seen()[before:] == ["root"]


def test_suspects_are_executed_one_at_a_time():
    announced = Announced()
    keys = [announced.key_of(label, label) for label in ("slow", "deadly")]
    announced.announcer.note_poison(keys, [])
    before = len(announced.seen())
    for label in ("slow", "deadly"):
        announced.execute(label, label)
    bolt, begins, ends = announced.mesh.bolt(), threading.Event(), threading.Event()
    execute = bolt.execute

    def slow(tup):
        execute(tup)
        begins.set()
        assert ends.wait(10)

    announced.announcer.look(announced.slot, False)  # brings both forward
    task = announced.mesh.task("bolt")
    task._batch, task._execute = 1, slow
    aside = threading.Thread(target=task.run_aside, args=(0.0,))
    aside.start()
    assert begins.wait(10)
    task._execute = execute
    announced.look()

    assert announced.seen()[before:] == ["slow"]
    ends.set()
    aside.join()
    announced.look()
    assert announced.seen()[before:] == ["slow", "deadly"]


def test_where_commits_wait_for_all_that_is_in_flight_a_suspect_is_executed_at_once(announced):
    announced.announcer.puts_off = False
    announced.announcer.note_poison([announced.key_of()], [])
    before = len(announced.seen())
    assert announced.execute()[before:] == ["root"]


def test_a_suspect_that_waits_is_dropped_with_what_was_in_flight(announced):
    announced.announcer.note_poison([announced.key_of()], [])
    before = len(announced.seen())
    announced.execute()
    announced.slot.reset()
    announced.look()
    assert len(announced.seen()) == before


def test_other_components_are_not_looked_at(announced):
    announced.announcer.note_poison(["another:00"], ["yet-another:00"])
    announced.execute()
    assert announced.told == []


class Unpackable:
    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


@pytest.fixture(params=[TypeError("stays here"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def unpackable(request):
    """A value that cannot be packed."""
    return Unpackable(request.param)


def test_a_tuple_that_cannot_be_packed_is_known_by_its_message_id(unpackable):
    announced = Announced()
    first, again, another = (announced.key_of(unpackable, id_) for id_ in ("id", "id", "another"))
    assert first == again != another


@pytest.mark.parametrize("is_tracked", [False, True], ids=["none", "cannot be packed, either"])
def test_a_tuple_of_which_nothing_can_be_packed_is_announced_all_the_same(unpackable, is_tracked):
    announced = Announced()
    announced.announcer.is_careful = True
    announced.execute(unpackable, unpackable if is_tracked else None)
    assert announced.keys() == []
    assert any("bolt:" in told.what for told in announced.told)


# The driver's book.


def died(poison, epoch, *keys, now=0.0):
    return poison.note_death([(key, epoch) for key in keys], now)


def test_a_tuple_is_condemned_by_the_second_death():
    poison = Poison(2)
    assert not died(poison, 1, "a", "b", "")
    assert poison.told() == {"suspects": ["a", "b"], "condemned": []}
    assert died(poison, 2, "a")
    assert poison.told() == {"suspects": ["b"], "condemned": ["a"]}


def test_slots_that_end_together_do_not_condemn_the_equal_tuples_that_they_execute():
    poison = Poison(2)
    assert not any([died(poison, 1, "a"), died(poison, 1, "a")])
    assert poison.told() == {"suspects": ["a"], "condemned": []}


def test_a_tuple_that_was_outlived_is_no_suspect():
    poison = Poison(2)
    died(poison, 1, "a")
    assert poison.told()["suspects"] == ["a"]
    poison.note_survival("a")
    assert poison.has_news
    assert poison.told()["suspects"] == []
    assert not died(poison, 2, "a")


def test_a_suspect_that_does_not_come_again_is_forgotten():
    poison = Poison(2)
    died(poison, 1, "early", now=1.0)
    died(poison, 2, "late", now=3.0)
    poison.forget(before=2.0)
    assert poison.has_news
    assert poison.told()["suspects"] == ["late"]


def test_a_condemned_tuple_stays_so():
    poison = Poison(1)
    assert died(poison, 1, "a")
    poison.note_survival("a")
    poison.forget(before=1.0)
    assert poison.told()["condemned"] == ["a"]


def test_no_book_is_kept_where_it_is_switched_off():
    poison = Poison(0)
    assert not died(poison, 1, "a")
    assert poison.told() == {"suspects": [], "condemned": []}


def link():
    ours, theirs = socket.socketpair()
    theirs.close()
    return SlotLink(0, 1, Outgoing(Connection(ours), "test"), False)


def test_what_was_outlived_or_is_not_announced_any_more_has_not_ended_the_process():
    slot = link()
    for thread, key in (1, "outlived"), (2, "under way"):
        slot.note_doing(Doing(f"bolt:2 on {key}", key, thread, 3))

    slot.note_survival("outlived")
    assert list(slot.executing.values()) == [("under way", 3)]

    slot.note_doing(Doing("", "", 1, 3))
    assert not slot.executing
