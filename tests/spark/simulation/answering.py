"""How a simulated slot answers the Spark tasks that visit it: the real fence, without a thread for each of them."""

from __future__ import annotations

import msgpack

from pystorm_spark.spark.exchange.visit import UNREACHED
from pystorm_spark.spark.protocol.wire import MISSED

ANSWER_POLL_SECS = 0.004  # between two looks whether an answer can be given


class SimulatedAnswering:
    """Stands for the threads of `Answering` in one process."""

    def __init__(self, process):
        self._process = process
        self._simulation = process.simulation
        self._callers = []  # who waits for an answer
        self.stalled_until = 0.0
        self.sealed_in = {}  # {payload: the epoch in which the slot sealed it}
        self.taken_in = {}  # {payload: the epoch in which the slot got it}

    def visited(self, request, reply):
        """A Spark task asks; `reply` is called once, with the answer."""
        self._callers.append(reply)
        self._process.guarded(lambda: self._take_in(request, reply))
        if not self._process.is_alive and reply in self._callers:
            self._callers.remove(reply)
            self._simulation.soon(lambda: reply(UNREACHED))

    def end(self):
        """The process is gone, and with it its connections."""
        callers, self._callers = self._callers, []
        for reply in callers:
            self._simulation.soon(lambda reply=reply: reply(UNREACHED))

    def note_sealed(self, epoch):
        for frame in self._process.slot.outbox._sealed:
            self.sealed_in.setdefault(frame.payload, epoch)

    def check_reset(self, epoch):
        arrivals = self._process.slot.arrivals
        held = [frame for lane in arrivals._lanes.values() for frame in lane.frames]
        waiting = [frame.payload for frame in [*arrivals._delivered, *held]]
        old = [self.taken_in[payload] for payload in waiting if self.taken_in[payload] != epoch]
        assert not old, f"frames of the epochs {old} are still there in epoch {epoch}"

    def _take_in(self, request, reply):
        epoch, parcels = request.epoch, request.parcels
        self._process.passes("taking in")
        answer, is_first = self._process.actor.exchanges.take_in(epoch, request.job, request.number, parcels)
        if is_first:
            self._note_arrival(epoch, parcels)
            self._process.passes("taken in")
            self._process.actor.took_in()
            self._hand_out(answer, epoch, request.is_last)
        self._reply(answer, reply)

    def _note_arrival(self, epoch, parcels):
        told = self._process.told_epoch
        assert epoch == told, f"an exchange of epoch {epoch} was let in, in epoch {told}"
        for parcel in parcels:
            if parcel == MISSED:
                continue
            self._simulation.take_parcel(parcel, epoch)
            for _, payload in msgpack.unpackb(parcel):
                self.taken_in[payload] = epoch

    def _hand_out(self, answer, epoch, is_last):
        exchanges = self._process.actor.exchanges
        if (not is_last and exchanges.held_secs()) or self._is_stalled():
            self._again(lambda: self._hand_out(answer, epoch, is_last))
            return
        self._process.passes("handing out")
        exchanges.hand_out(answer, epoch, is_last)
        for _, parcel in answer.wait().parcels:
            self._check_handed(parcel, epoch)
        self._process.passes("handed out")

    def _check_handed(self, parcel, epoch):
        told = self._process.told_epoch
        assert epoch == told, f"frames of epoch {told} were handed to epoch {epoch}"
        self._simulation.hand_parcel(parcel, epoch)
        for _, payload in msgpack.unpackb(parcel):
            sealed_in = self.sealed_in.get(payload, self._process.actor.epoch)
            assert sealed_in == epoch, f"a frame sealed in epoch {sealed_in} was handed out in epoch {epoch}"

    def _reply(self, answer, reply):
        if not answer._given.is_set() or self._is_stalled():
            self._again(lambda: self._reply(answer, reply))
            return
        self._callers.remove(reply)
        self._simulation.soon(lambda: reply(answer.wait()))

    def _is_stalled(self):
        return self.stalled_until > self._simulation.now

    def _again(self, call):
        at = max(self.stalled_until, self._simulation.now + ANSWER_POLL_SECS)
        self._simulation.at(at, lambda: self._process.guarded(call))
