"""What slots are told: no message is lost or overtakes another, and no lease is older than one that was queued."""

from contextlib import suppress
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.spark.driver import control as control_module
from pystorm_spark.spark.driver.control import Control
from pystorm_spark.spark.protocol import outgoing as outgoing_module
from pystorm_spark.spark.protocol.messages import Assignment, Beat, Full, Hello, Stop
from pystorm_spark.spark.protocol.outgoing import Outgoing
from pystorm_spark.spark.protocol.wire import Address, WireError
from tests.interleaving.scheduler import HandOver, Scheduler, Threading
from tests.interleaving.wire import connected, heard_by

ASSIGNMENT = Assignment(b"", 60.0, False, [], [], None, 1, False)
MODULES = [outgoing_module, control_module]


def hand_overs(points, threads):
    return st.lists(st.builds(HandOver, st.integers(1, points), st.integers(0, threads - 1)), max_size=6)


class Telling:
    """Two threads that tell a slot something, one that listens as the slot does, and maybe one that hangs up."""

    def __init__(self, schedule, closes):
        self.scheduler = Scheduler(schedule, MODULES)
        self.closes = closes
        self.leases = self.told = 0
        self.refused = False
        self.heard = []

    def play(self, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(outgoing_module, "threading", Threading(self.scheduler))
            ours, theirs = connected(self.scheduler)
            self.outgoing = Outgoing(ours, "writing")
            self.outgoing.send({"kind": "assignment"})
            closing = {"closing": self.outgoing.close} if self.closes else {}
            self.scheduler.run(
                telling=self.tell,
                leasing=self.lease,
                hearing=lambda: self.heard.extend(heard_by(theirs, "last")),
                ending=self.end,
                **closing,
            )
        self.check()
        return self

    def tell(self):
        try:
            for number in range(3):
                self.outgoing.send({"kind": "told", "number": number, "after": self.leases})
                self.told += 1
        except WireError:
            self.refused = True

    def lease(self):
        try:
            for number in range(1, 4):
                self.outgoing.send({"kind": "lease", "number": number})
                self.leases = number
        except WireError:
            self.refused = True

    def end(self):
        self.scheduler.wait_for(lambda: self.refused or (self.told, self.leases) == (3, 3))
        if not self.closes:
            self.outgoing.send({"kind": "last"})
            self.scheduler.wait_for(lambda: bool(self.heard))
        self.outgoing.close()
        self.outgoing.join(60)
        assert not self.outgoing._thread.is_alive()
        with pytest.raises(WireError):
            self.outgoing.send({"kind": "told"})

    def check(self):
        kinds = [message["kind"] for message in self.heard]
        told = [message["number"] for message in self.heard if message["kind"] == "told"]
        leases = [message["number"] for message in self.heard if message["kind"] == "lease"]
        assert kinds[:1] in ([], ["assignment"])
        assert told == list(range(len(told)))
        assert leases == sorted(set(leases))
        if not self.closes:
            assert (kinds[-1], told, leases[-1]) == ("last", [0, 1, 2], 3)


@pytest.mark.slow
@pytest.mark.parametrize("closes", [False, True], ids=["to the end", "hung up"])
def test_each_single_hand_over_leaves_messages_in_their_order(monkeypatch, closes):
    for thread in range(6):
        for point in count(1):
            if point > Telling([HandOver(point, thread)], closes).play(monkeypatch).scheduler.points:
                break


@pytest.mark.parametrize("closes", [False, True], ids=["to the end", "hung up"])
def test_any_hand_overs_leave_messages_in_their_order(closes):
    monkeypatch = pytest.MonkeyPatch()

    @settings(max_examples=60, deadline=None)
    @given(hand_overs(200, 6))
    def play(schedule):
        Telling(schedule, closes).play(monkeypatch)

    play()


class Leasing:
    """A `Control` whose slots say now and then what they have more of than they can take."""

    NEWS = [[["a"]], [["b"], []]]  # what each slot says, one after the other

    def __init__(self, schedule):
        self.scheduler = Scheduler(schedule, MODULES)
        self.heard = [[] for _ in self.NEWS]
        self.done = 0

    def play(self, monkeypatch):
        with monkeypatch.context() as patch:
            threading = Threading(self.scheduler)
            patch.setattr(outgoing_module, "threading", threading)
            patch.setattr(control_module, "threading", threading)
            patch.setattr(control_module, "time", SimpleNamespace(monotonic=self.scheduler.monotonic))
            patch.setattr(control_module, "listen", lambda *where: (None, Address("control")))
            patch.setattr(control_module, "Door", lambda *how: self)
            self.control = Control(None, "", self)
            ends = [connected(self.scheduler, room=4) for _ in self.NEWS]
            slots = {f"slot_{number}": partial(self.live, number, theirs) for number, (_, theirs) in enumerate(ends)}
            serving = {f"serving_{number}": partial(self.serve, ours) for number, (ours, _) in enumerate(ends)}
            self.scheduler.run(**slots, **serving, ending=self.end)
        return self

    def run(self):
        """As the door: the connections have been let in."""

    close = run

    def join(self, secs):
        pass

    def assignment(self, link, versions):
        return ASSIGNMENT

    def on_message(self, link, message):
        if isinstance(message, Full):
            link.full = message.full
            self.control.tell_lease()
        else:
            self.done += 1

    def on_end(self, link):
        raise AssertionError("no slot ends before the control does")

    def on_lease(self):
        pass

    def serve(self, ours):
        with suppress(WireError):
            self.control._serve(ours)

    def live(self, number, theirs):
        theirs.send(Hello(number, 1, {}).to_plain())
        for full in self.NEWS[number]:
            theirs.send(Full(full).to_plain())
        theirs.send(Beat().to_plain())
        self.heard[number] = heard_by(theirs, "stop")

    def end(self):
        self.scheduler.wait_for(lambda: self.done == len(self.NEWS))
        self.control._closed.set()  # no other lease comes that would make good what was wrong
        self.control._threads[1].join()
        for link in self.control._links:
            link.tell(Stop())
        self.scheduler.wait_for(lambda: all(self.heard))
        self.control.close()
        for heard in self.heard:
            assert heard[0] == ASSIGNMENT.to_plain()
            assert heard[-2] == {"kind": "lease", "full": ["a"]}, self.scheduler.handed_over


@pytest.mark.slow
def test_after_each_single_hand_over_all_slots_have_the_newest_lease(monkeypatch):
    for thread in range(5):
        for point in count(1):
            if point > Leasing([HandOver(point, thread)]).play(monkeypatch).scheduler.points:
                break


def test_after_any_hand_overs_all_slots_have_the_newest_lease():
    monkeypatch = pytest.MonkeyPatch()

    @settings(max_examples=60, deadline=None)
    @given(hand_overs(400, 8))
    def play(schedule):
        Leasing(schedule).play(monkeypatch)

    play()
