"""Back-pressure: an overloaded bolt pauses the spouts that feed it, and no other spout."""

import pytest

from pystorm_spark import Bolt, Spout, TopologyBuilder
from pystorm_spark.runtime.arrivals import BACKLOG
from pystorm_spark.runtime.back_pressure import OUTBOX_BYTES
from pystorm_spark.runtime.codec.codec import ValueCodec, decode
from pystorm_spark.runtime.frames import Frame
from tests.runtime.slots import Mesh

ENDLESS = 10**9
MOST_POLLED = 1024  # beyond the limit, because one round of polls may emit them


class Numbers(Spout):
    """Emits `count` numbers, each with `size` bytes, and with message ids if `tracked`."""

    outputs = ("number", "filling")

    def __init__(self, count=ENDLESS, tracked=False, size=0):
        self.count, self.tracked, self.size = count, tracked, size

    def open(self, conf, context, collector):
        self.collector = collector
        self.emitted, self.acked, self.failed = 0, [], []

    def next_tuple(self):
        if self.emitted < self.count:
            self.emitted += 1
            message_id = self.emitted if self.tracked else None
            self.collector.emit([self.emitted, bytes(self.size)], message_id=message_id)

    def ack(self, message_id):
        self.acked.append(message_id)

    def fail(self, message_id):
        self.failed.append(message_id)


class Passing(Bolt):
    """Records its tuples, and passes each one on `times` times."""

    outputs = ("number", "filling")

    def __init__(self, times=1):
        self.times = times

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.seen = []

    def execute(self, tup):
        self.seen.append(tup[0])
        for _ in range(self.times):
            self.collector.emit([tup[0], tup[1]], anchors=tup)
        self.collector.ack(tup)


class Consumer:
    """A metrics consumer."""

    def prepare(self, conf, argument, context, error_reporter):
        pass

    def handle_data_points(self, task_info, data_points):
        pass

    def cleanup(self):
        pass


class Stage(Mesh):
    """Slots whose bolts can be stopped, like bolts in a slow `execute`; frames arrive at once."""

    def hold_up(self, component, index=0):
        task = self.task(component, index)
        self.slot_of(task).set_aside(task, thread=id(task), wake=lambda: None)
        return task

    def slot_of(self, task):
        return self.slots[self.plan.slot_of[task.task_id]]

    def run(self, turns=40):
        for _ in range(turns):
            for number in range(len(self.slots)):
                self.turn(number)
            while self.wire:
                self.move()

    def tell_full(self):
        """Tell every slot the full components of all slots, as the driver does."""
        for number in range(len(self.slots)):
            self.turn(number)
        full = frozenset(component for slot in self.slots for component in slot.full_components())
        for slot in self.slots:
            slot.back_pressure.full = full
        return full


def stage(builder, slots=1, **conf):
    return Stage(builder.create_topology(), slots, {key.replace("_", "."): value for key, value in conf.items()})


def two_ways(flood=None, pulse=None, bolts=1, spouts=1):
    """Build a path with a bolt that the test can stop, and an independent path."""
    builder = TopologyBuilder()
    builder.set_spout("flood", flood or Numbers(), spouts)
    builder.set_bolt("slow", Passing(), bolts).shuffle_grouping("flood")
    builder.set_spout("pulse", pulse or Numbers(200, tracked=True), spouts)
    builder.set_bolt("quick", Passing(), spouts).fields_grouping("pulse", ["number"])
    return builder


def execute_one(task):
    task._batch = 1
    task.run_aside(0.0)


# In one slot.


def test_a_stopped_bolt_pauses_the_spout_that_feeds_it():
    mesh = stage(two_ways())
    slow = mesh.hold_up("slow")
    mesh.run()
    assert BACKLOG <= slow.waiting() < BACKLOG + MOST_POLLED
    emitted = mesh.spout("flood").emitted
    mesh.run()
    assert mesh.spout("flood").emitted == emitted


def test_a_spout_that_does_not_feed_the_bolt_goes_on():
    mesh = stage(two_ways(pulse=Numbers(tracked=True)))
    mesh.hold_up("slow")
    mesh.run()
    acked = len(mesh.spout("pulse").acked)
    mesh.run()
    assert len(mesh.spout("pulse").acked) > acked > 0


def test_a_spout_goes_on_when_the_bolts_queue_is_shorter():
    mesh = stage(two_ways())
    slow = mesh.hold_up("slow")
    mesh.run()
    emitted = mesh.spout("flood").emitted
    while slow.waiting() >= BACKLOG:
        execute_one(slow)
    mesh.run(1)
    assert mesh.spout("flood").emitted > emitted


def test_a_bolt_pauses_a_spout_that_feeds_it_through_others():
    builder = TopologyBuilder()
    builder.set_spout("flood", Numbers())
    builder.set_bolt("fan", Passing(times=10)).shuffle_grouping("flood")
    builder.set_bolt("slow", Passing()).shuffle_grouping("fan")
    builder.set_bolt("after", Passing()).shuffle_grouping("slow")
    mesh = stage(builder)
    slow = mesh.hold_up("slow")
    mesh.run()
    emitted = mesh.spout("flood").emitted
    mesh.run()
    assert slow.waiting() < BACKLOG + 10 * MOST_POLLED
    assert mesh.spout("flood").emitted == emitted


def test_a_spout_that_feeds_a_quick_bolt_and_a_slow_one_is_paused():
    builder = two_ways()
    builder.set_bolt("also-quick", Passing()).shuffle_grouping("flood")
    mesh = stage(builder)
    mesh.hold_up("slow")
    mesh.run()
    assert len(mesh.bolt("also-quick").seen) == mesh.spout("flood").emitted < BACKLOG + MOST_POLLED


def test_two_slow_bolts_pause_their_own_spouts():
    builder = two_ways(pulse=Numbers())
    builder.set_spout("free", Numbers(100))
    builder.set_bolt("free-bolt", Passing()).shuffle_grouping("free")
    mesh = stage(builder)
    held = mesh.hold_up("slow"), mesh.hold_up("quick")
    mesh.run(100)
    assert [BACKLOG <= task.waiting() < BACKLOG + MOST_POLLED for task in held] == [True, True]
    assert len(mesh.bolt("free-bolt").seen) == 100


def test_a_stopped_metrics_consumer_pauses_no_spout():
    consumer = {"class": f"{__name__}.Consumer", "parallelism.hint": 1}
    mesh = Stage(
        two_ways().create_topology(),
        1,
        {"topology.metrics.consumer.register": [consumer], "topology.builtin.metrics.bucket.size.secs": 0.001},
    )
    consumer_id = next(id_ for id_ in mesh.plan.tasks if id_.startswith("__metrics"))
    task = mesh.hold_up(consumer_id)
    while not task.inbox:
        mesh.clock.now += 1
        mesh.run(1)
    task.inbox.extend(task.inbox[:1] * BACKLOG)
    emitted = mesh.spout("flood").emitted
    mesh.run(1)
    assert mesh.spout("flood").emitted > emitted


class Round(Passing):
    """Sends each number round the cycle again, reduced by one, until it is zero."""

    def execute(self, tup):
        self.seen.append(tup[0])
        if tup[0] > 0:
            self.collector.emit([tup[0] - 1, b""], anchors=tup)
        self.collector.ack(tup)


@pytest.mark.parametrize("slots", [1, 2])
def test_tuples_that_go_round_in_a_cycle_come_to_an_end(slots):
    builder = TopologyBuilder()
    builder.set_spout("flood", Numbers(300, tracked=True))
    builder.set_bolt("there", Round()).shuffle_grouping("flood").global_grouping("back")
    builder.set_bolt("back", Round()).shuffle_grouping("there")
    mesh = stage(builder, slots)
    mesh.run(20)
    for task in mesh.slots[0].bolts:  # it takes nothing in while it has to do
        task._batch = 1
    mesh.settle()
    assert sorted(mesh.spout("flood").acked) == list(range(1, 301))


# Between slots.


@pytest.fixture
def behind():
    """Two slots; a stopped bolt in the first one has a backlog."""
    mesh = stage(two_ways(flood=Numbers(3 * BACKLOG), spouts=2), slots=2)
    mesh.slow = mesh.hold_up("slow")
    mesh.behind = mesh.slot_of(mesh.slow)
    mesh.run(100)
    mesh.behind.turn()
    assert mesh.behind.inbox_bytes() > 0
    return mesh


def test_tuples_and_acks_come_to_the_other_tasks_of_the_slot(behind):
    for index in range(2):
        spout = behind.spout("pulse", index)
        assert (sorted(spout.acked), spout.failed) == (list(range(1, 201)), [])
    seen = [len(behind.bolt("quick", index).seen) for index in range(2)]
    assert sum(seen) == 400
    assert all(seen)


def test_frames_for_a_full_queue_stay_packed(behind):
    assert behind.slow.waiting() < BACKLOG + MOST_POLLED + 1024
    (lane,) = behind.behind.arrivals._backlogged
    tuples = sum(len(decode(frame.payload, ValueCodec()).rows) for frame in lane.frames)
    came = len(behind.slow.bolt.seen) + behind.slow.waiting() + tuples
    assert came == behind.spout("flood", 0).emitted + behind.spout("flood", 1).emitted


def test_a_slot_that_waits_for_a_stopped_bolt_is_idle(behind):
    assert [slot.turn() for slot in behind.slots] == [False, False]


def test_a_backlog_is_taken_in_in_order(behind):
    remote = next(task for task in behind.plan.tasks["flood"] if behind.plan.slot_of[task] != behind.behind.number)
    order = []
    while behind.slow.can_run():
        order += [
            tup[0] for tup in behind.slow.inbox[:] + behind.slow.backlog[behind.slow._at :] if tup.source_task == remote
        ]
        behind.slow._batch = ENDLESS
        while behind.slow.can_run():
            behind.slow.run_aside(0.0)
        behind.run(2)
    assert order == list(range(1, 3 * BACKLOG + 1))
    assert behind.behind.inbox_bytes() == 0


def test_the_slot_is_woken_when_the_bolt_has_nothing_left_but_its_backlog(behind):
    woken = []
    behind.behind.on_wake(lambda: woken.append(behind.slow.waiting()))
    while behind.slow.can_run():
        behind.slow.run_aside(0.0)
        behind.behind.note_end_aside(behind.slow)
    assert woken == [0]


def test_a_reset_drops_a_backlog(behind):
    behind.behind.reset()
    assert behind.behind.inbox_bytes() == 0
    assert behind.behind.arrivals.backlogged() == set()


def test_an_inbox_below_its_limit_pauses_no_spout(behind):
    assert behind.tell_full() == frozenset()


def full_stage(builder, limit, slots=2):
    mesh = Stage(builder.create_topology(), slots, {"topology.slot.inbox.max.bytes": limit})
    mesh.hold_up("slow")
    return mesh


def test_a_full_inbox_pauses_the_spouts_that_fill_it_in_all_slots():
    mesh = full_stage(two_ways(pulse=Numbers(tracked=True), spouts=2), limit=20_000)
    mesh.run(12)
    assert mesh.tell_full() == {"slow"}
    flood = [mesh.spout("flood", index).emitted for index in range(2)]
    pulse = [mesh.spout("pulse", index).emitted for index in range(2)]
    mesh.run(2)
    assert [mesh.spout("flood", index).emitted for index in range(2)] == flood
    assert all(mesh.spout("pulse", index).emitted > before for index, before in enumerate(pulse))


def test_a_full_inbox_pauses_spouts_that_feed_it_through_others():
    builder = TopologyBuilder()
    builder.set_spout("flood", Numbers(), 2)
    builder.set_bolt("fan", Passing(times=5), 2).shuffle_grouping("flood")
    builder.set_bolt("slow", Passing()).shuffle_grouping("fan")
    mesh = full_stage(builder, limit=20_000)
    mesh.run(12)
    assert mesh.tell_full() == {"slow"}
    mesh.run(2)
    emitted = [mesh.spout("flood", index).emitted for index in range(2)]
    mesh.run()
    assert [mesh.spout("flood", index).emitted for index in range(2)] == emitted


def test_spouts_go_on_when_the_inbox_is_no_longer_full():
    mesh = full_stage(two_ways(spouts=2), limit=20_000)
    mesh.run(12)
    mesh.tell_full()
    slow = mesh.task("slow")
    while mesh.slot_of(slow).inbox_bytes() > 20_000:
        slow.run_aside(0.0)
        mesh.run(1)
    assert mesh.tell_full() == frozenset()
    emitted = mesh.spout("flood", 1).emitted
    mesh.run(1)
    assert mesh.spout("flood", 1).emitted > emitted


def test_only_bolts_with_more_than_an_even_share_of_a_full_inbox_are_full():
    builder = two_ways(spouts=2)
    builder.set_spout("trickle", Numbers(BACKLOG + 1000), 2)
    builder.set_bolt("also-slow", Passing()).shuffle_grouping("trickle")
    mesh = full_stage(builder, limit=100_000)
    mesh.hold_up("also-slow")
    mesh.run(20)
    assert mesh.tell_full() == {"slow"}


def test_acks_that_a_slot_does_not_take_in_pause_their_spout():
    builder = TopologyBuilder()
    builder.set_spout("pulse", Numbers(100, tracked=True))
    builder.set_bolt("quick", Passing(), 2).fields_grouping("pulse", ["number"])
    mesh = Stage(builder.create_topology(), 2, {"topology.slot.inbox.max.bytes": 10})
    mesh.slots[0].deliver([Frame(mesh.tasks("pulse")[0], bytes(100))])
    assert mesh.slots[0].full_components() == ["pulse"]
    assert mesh.plan.reached["pulse"] == {"pulse", "quick"}


# Large tuples.


def test_large_tuples_are_unpacked_a_few_at_a_time():
    mesh = stage(two_ways(flood=Numbers(300, size=1_000_000), spouts=2), slots=2)
    slow = mesh.hold_up("slow")
    remote = next(task for task in mesh.plan.tasks["flood"] if mesh.plan.slot_of[task] != mesh.slot_of(slow).number)
    mesh.run(400)
    unpacked = [tup for tup in slow.inbox if tup.source_task == remote]
    assert 1 <= len(unpacked) <= 8
    assert mesh.slot_of(slow).inbox_bytes() == pytest.approx((300 - len(unpacked)) * 1_000_000, rel=0.01)
    assert mesh.slot_of(slow).outbox.waiting_bytes() <= OUTBOX_BYTES
