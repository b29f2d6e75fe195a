"""Spark without Spark: jobs of stages of tasks that visit slots, run again, run twice, and fail."""

from __future__ import annotations

from pystorm_spark.spark.exchange.visit import UNREACHED, Visit


class JobError(Exception):
    """Spark has given up a job."""


class Job:
    """One job: a chain of exchanges. Every task may run more than once; the first that succeeds counts."""

    def __init__(self, simulation, order, exchanges):
        self._simulation = simulation
        self._order = order
        self._slots = range(len(order.addresses))
        self._last = exchanges
        self._outputs = [{} for _ in range(exchanges + 1)]  # by stage: {slot: what its task put out}
        self._running = set()
        self.is_over = False
        self.error = None
        self._start(0)

    def done(self):
        return self.is_over

    def result(self):
        assert self.is_over
        if self.error is not None:
            raise self.error
        return dict(result for results in self._outputs[self._last].values() for result in results)

    def _start(self, stage):
        for slot in self._slots:
            if slot not in self._outputs[stage] and (stage, slot) not in self._running:
                self._running.add((stage, slot))
                self._simulation.soon(lambda slot=slot: self._attempt(stage, slot))

    def _attempt(self, stage, slot):
        """A task begins: it fetches its input, then visits its slot."""
        fault = self._simulation.fault("visit", slot)
        if fault is not None and fault.deed in ("refetch", "retry") and stage > 0 and not self.is_over:
            if fault.deed == "refetch":
                self._outputs[stage - 1].pop(slot, None)
            else:
                for outputs in self._outputs[:stage]:
                    outputs.clear()
        if stage and len(self._outputs[stage - 1]) < len(self._slots):
            self._running.discard((stage, slot))
            if not self.is_over:
                first = min(at for at in range(stage) if len(self._outputs[at]) < len(self._slots))
                self._start(first)
            return
        self._visit(stage, slot, self._fetched(stage, slot), fault)

    def _fetched(self, stage, slot):
        if not stage:
            return []
        sources = list(self._slots)
        self._simulation.rng.shuffle(sources)
        moved = self._outputs[stage - 1]
        return [parcel for source in sources for target, parcel in moved[source] if target == slot]

    def _visit(self, stage, slot, parcels, fault):
        visit = Visit(self._order, stage, is_last=stage == self._last)

        def finish(answer):
            output = [(slot, answer.status)] if visit.is_last else visit.output(answer)
            self._finish(stage, slot, output)

        def ask(reply):
            process = self._simulation.process_at(self._order.addresses[slot])
            self._simulation.soon(lambda: process.answering.visited(visit.request(parcels), reply))

        deed = fault.deed if fault is not None else None
        if deed == "repeat":
            ask(lambda answer: ask(finish))
        elif deed == "miss":
            finish(UNREACHED)
        elif deed == "break":
            ask(lambda answer: finish(UNREACHED))
        else:
            ask(finish)
        if deed == "copy":
            self._simulation.haunt(fault.secs, lambda: ask(finish))
        elif deed == "fail":
            self._simulation.after(fault.secs, self._fail)
        elif deed in ("end", "finish", "deactivate"):
            self._simulation.after(fault.secs, getattr(self._simulation, deed))

    def _finish(self, stage, slot, output):
        if self.is_over or slot in self._outputs[stage]:
            return  # another copy was faster
        self._running.discard((stage, slot))
        self._outputs[stage][slot] = output
        if len(self._outputs[stage]) < len(self._slots):
            return
        if stage == self._last:
            self.is_over = True
        else:
            self._start(stage + 1)

    def _fail(self):
        if not self.is_over:
            self.is_over = True
            self.error = JobError("a stage failed four times")
