"""A slot's answers to exchanges: frames go in once and out once, and all who ask the same get the same."""

from itertools import count
from types import SimpleNamespace

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.runtime.frames import Frame
from pystorm_spark.spark.slot import exchanges as answers_module
from pystorm_spark.spark.slot.exchanges import Exchanges
from tests.interleaving.scheduler import HandOver, Scheduler, Threading

hand_overs = st.lists(st.builds(HandOver, st.integers(1, 250), st.integers(0, 4)), max_size=6)


class Answering:
    """Frames with numbers, on their way into a slot and out of it; two ask for each exchange, amid a new epoch."""

    def __init__(self, schedule):
        self.scheduler = Scheduler(schedule, [answers_module])
        self.plan, self.arrivals = SimpleNamespace(slot_of={7: 1}), self
        self.clock, self.quiescing = self.scheduler, False
        self.epoch = 1
        self.outbox, self.made, self.delivered = [], 0, []
        self.answers = {}  # {(epoch, job, number): what each who asked was answered}
        self.fenced = False

    # As the slot.

    def is_waiting(self):
        return False

    def take(self, enough):
        taken, self.outbox = self.outbox, []
        return taken

    def deliver(self, frames):
        self.delivered.extend((self.epoch, frame.target, bytes(frame.payload)) for frame in frames)

    # The threads.

    def play(self, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(answers_module, "threading", Threading(self.scheduler))
            self.exchanges = Exchanges(self, 1, lambda: None)
            self.scheduler.run(turner=self.turn, one=self.ask_all, other=self.ask_all, hearing=self.hear)
        self.check()
        return self

    def turn(self):
        for _ in range(3):
            self.work()
        self.scheduler.wait_for(lambda: self.fenced)
        self.scheduler.pause()  # it is busy with user code
        self.epoch = 2
        self.outbox.clear()
        self.exchanges.begin_epoch(2)
        self.work()

    def work(self):
        self.made += 1
        self.outbox.append(self.frame(self.epoch, self.made))
        self.scheduler.pause()

    def ask_all(self):
        for epoch, job in ((1, 1), (1, 2), (2, 1)):
            for number in range(2):
                if epoch == 2:
                    self.scheduler.wait_for(lambda: self.fenced)
                self.ask(epoch, job, number)

    def ask(self, epoch, job, number):
        parcel = msgpack.packb([list(self.frame(epoch, f"{job} {number}"))])
        answer, is_first = self.exchanges.take_in(epoch, job, number, [parcel])
        if is_first:
            self.exchanges.hand_out(answer, epoch, is_last=False)
        self.answers.setdefault((epoch, job, number), []).append(answer.wait())

    def hear(self):
        self.scheduler.wait_for(lambda: (1, 1, 1) in self.answers)
        self.exchanges.end_job(1, 1)
        self.scheduler.wait_for(lambda: (1, 2, 0) in self.answers)
        self.exchanges.fence(2)
        self.fenced = True

    def frame(self, epoch, number):
        fields = dict.fromkeys(Frame._fields, 0) | {"target": 7, "payload": b"%d: %s" % (epoch, str(number).encode())}
        return Frame(**fields)

    def check(self):
        out = []
        for (epoch, _, _), answers in self.answers.items():
            given = [answer for answer in answers if answer.status != "refused"]
            assert given == given[:1] * len(given), self.scheduler.handed_over
            assert epoch == 1 or len(given) == 2
            for _, parcel in given[0].parcels if given else []:
                frames = [Frame(*frame) for frame in msgpack.unpackb(parcel)]
                assert all(frame.payload.startswith(b"%d:" % epoch) for frame in frames), self.scheduler.handed_over
                out.extend(frame.payload for frame in frames)
        assert len(out) == len(set(out)), self.scheduler.handed_over
        assert len(self.delivered) == len(set(self.delivered))
        for epoch, _, payload in self.delivered:
            assert payload.startswith(b"%d:" % epoch), self.scheduler.handed_over
        assert {payload for *_, payload in self.delivered} >= {b"2: 1 0", b"2: 1 1"}


@pytest.mark.slow
def test_after_each_single_hand_over_frames_went_in_and_out_once(monkeypatch):
    for thread in range(4):
        for point in count(1):
            if point > Answering([HandOver(point, thread)]).play(monkeypatch).scheduler.points:
                break


def test_after_any_hand_overs_frames_went_in_and_out_once():
    monkeypatch = pytest.MonkeyPatch()

    @settings(max_examples=60, deadline=None)
    @given(hand_overs)
    def play(schedule):
        Answering(schedule).play(monkeypatch)

    play()
