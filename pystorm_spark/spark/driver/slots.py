"""Internal. Slots: the slots of one topology, from their placing to their end; who waits for them waits here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.engine import Changes, Engine, Limits
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.state import DriverState
from pystorm_spark.spark.protocol.messages import Careful, Crashed, Failed, Hung, Message, Ready, Stop, Stopped
from pystorm_spark.spark.protocol.wire import Address

log = logging.getLogger(__name__)

LATE_FAILURE_SECS = 30.0  # beyond its time to start, in which a slot tells why it could not, before it is given up
QUICK_STARTS = 4
PROCESS_POLL_SECS = 0.5  # between two looks whether processes that start still live
FIRST_WORD_SECS = 20.0  # from the start of a process to its hello, even where the machine has much to do


class Slots:
    """Starts slots, knows which of them live, and ends them."""

    def __init__(self, slots: int, engine: Engine, state: DriverState, limits: Limits, changed: Changes) -> None:
        self.links: dict[int, SlotLink | None] = dict.fromkeys(range(slots))
        self.epoch = 1
        self.active = False
        self.is_open = False  # whether slots open their components when they start
        self.state = state
        self.limits = limits
        self.changed = changed
        self._engine = engine
        self._start_secs = limits.start_secs + LATE_FAILURE_SECS
        self._failed_start: str | None = None
        self._heard: set[int] = set()  # slots that start and have said hello

    def there(self) -> list[SlotLink]:
        return [link for link in self.links.values() if link is not None]

    def ready(self) -> list[SlotLink]:
        return [link for link in self.there() if link.state == "ready"]

    def are_all_ready(self) -> bool:
        return len(self.ready()) == len(self.links)

    def tell_all(self, message: Message) -> None:
        for link in self.there():
            link.tell(message)

    # What slots say; called with the lock held, in the threads that listen.

    def admit(self, link: SlotLink) -> tuple[int, bool]:
        """The epoch in which a process that has just connected starts, and whether it opens its components."""
        with self.changed:
            link.epoch = self.epoch
            self._heard.add(link.slot)
            return self.epoch, self.is_open

    def on_ready(self, link: SlotLink, message: Ready) -> None:
        if not self._is_awaited(link):
            link.state = "surplus"
            link.kill()
            return
        link.address = Address(*message.address)
        link.state = "ready"
        self.links[link.slot] = link

    def _is_awaited(self, link: SlotLink) -> bool:
        """Whether a process that starts is still needed: Spark may start two for a slot, or one may come too late."""
        is_given_up = link.slot in self.state.lost  # and another one is about to be started
        return self.links[link.slot] is None and link.epoch == self.epoch and not is_given_up

    def on_failed(self, link: SlotLink, message: Failed) -> None:
        link.reason = message.error
        if link.state == "starting" and self._is_awaited(link):
            self._failed_start = link.reason
        link.state = "failed"
        log.debug("slot %d could not start:\n%s", link.slot, message.traceback)

    def on_crashed(self, link: SlotLink, message: Crashed) -> None:
        link.note_crash(message.reason)

    def on_hung(self, link: SlotLink, message: Hung) -> None:
        link.reason = f"{message.where} has not returned for {message.secs:.0f} s"

    def on_stopped(self, link: SlotLink, message: Stopped) -> None:
        link.state = "stopped"

    def on_end(self, link: SlotLink) -> bool:
        """A slot's connection has ended, and so has the slot; whether it was counted on."""
        if link.state == "ready" and not self.state.is_ended:
            link.state = "lost"
            self.state.note_lost(link.slot, link.last_words())
            return True
        if link.state == "ready":
            link.state = "stopped"
        elif link.state == "starting" and self._is_awaited(link):
            told = f"slot {link.slot} did not start: {link.last_words()}"
            self._failed_start = self._failed_start or told
        return False

    def refuse(self, reason: str) -> None:
        """A slot cannot take part: the start fails with `reason`."""
        with self.changed:
            self._failed_start = reason
            self.changed.notify_all()

    # Starting and ending; called by the cluster.

    def start(self, is_open: bool) -> None:
        """Place every slot and wait until all are there, with their components open if `is_open`."""
        self.is_open = is_open
        self.start_again(list(self.links))

    def start_again(self, slots: list[int]) -> None:
        """Place these slots and wait until all of them are there."""
        deadline = self.changed.monotonic() + self._start_secs
        starts = 0
        with self.changed:
            self._failed_start = None
            self._heard.clear()
        while True:
            with self.changed:  # a late process may have taken a place by now
                silent = [slot for slot in self.without_process(slots) if slot not in self._heard]
            if silent:
                self._engine.place(silent)
                starts += 1
            with self.changed:
                now = self.changed.monotonic()
                # One that dies before it says hello is started again: at once where it is seen, but not on and on.
                if self._await_start(slots, min(deadline, now + FIRST_WORD_SECS), looks=starts <= QUICK_STARTS):
                    return
                if self.changed.monotonic() >= deadline:
                    missing = self.without_process(slots)
                    raise StormError(f"slots {missing} did not start within {self._start_secs:g} s")

    def _await_start(self, slots: list[int], until: float, looks: bool) -> bool:
        """Wait until all of `slots` are there; False if `until` is over, or a process is seen to have died before."""
        while True:
            is_over = self.changed.wait_for(
                lambda: self._failed_start or self.state.is_ended or not self.without_process(slots),
                min(PROCESS_POLL_SECS, max(0.0, until - self.changed.monotonic())),
            )
            if self._failed_start:
                raise StormError(self._failed_start)
            silent = [slot for slot in self.without_process(slots) if slot not in self._heard]
            is_late = self.changed.monotonic() >= until
            if is_over or is_late or (looks and self._engine.has_lost(silent)):
                return bool(is_over)

    def begin_epoch(self, lost: Iterable[int]) -> None:
        """Those that are lost have no process any more. Called with the lock held."""
        self.epoch += 1
        self.links.update(dict.fromkeys(lost))

    def without_process(self, slots: list[int]) -> list[int]:
        return [slot for slot in slots if self.links[slot] is None]

    def stop(self, secs: float = 30.0) -> None:
        """Have every slot close its components and end; what does not end is killed."""
        with self.changed:
            self.state.end()
            links = self.there()
            self.changed.notify_all()
        for link in links:
            link.tell(Stop())
        with self.changed:
            self.changed.wait_for(lambda: all(link.state != "ready" for link in links), secs)
        for link in links:
            if link.state == "ready":
                log.warning("slot %d does not end and is killed", link.slot)
                link.kill()

    def be_careful(self) -> None:
        """Have every slot announce each call of user code, so that it is known which one kills it."""
        self.tell_all(Careful())

    # Waiting, for threads that feed slots or fetch from them.

    def all_ready(self) -> list[SlotLink] | None:
        """The slots by number, once all of them are there; None if the topology ends before that."""
        with self.changed:
            self.changed.wait_for(lambda: self.state.is_ended or (self.are_all_ready() and not self.state.lost))
            return None if self.state.is_ended else self.there()

    def wait_for(self, condition: Callable[[], bool], secs: float | None = None) -> bool:
        """Wait until what slots say makes `condition` true; False if the topology ends, or `secs` pass, before."""
        with self.changed:
            return self.changed.wait_for(lambda: self.state.is_ended or condition(), secs) and not self.state.is_ended

    def pause(self, secs: float) -> bool:
        """Let `secs` pass; False if the topology ends."""
        with self.changed:
            return not self.changed.wait_for(lambda: self.state.is_ended, secs)

    def nudge(self) -> None:
        """Have those who wait look again."""
        with self.changed:
            self.changed.notify_all()

    # Called in the thread that keeps the lease.

    def look_for_silence(self) -> None:
        """Kill slots of which nothing has been heard for too long: they hang as a whole, or their machine does."""
        now = self.changed.monotonic()
        for link in self.ready():
            if now - link.heard_at > self.limits.silence_secs:
                link.reason = f"nothing was heard of it for {now - link.heard_at:.0f} s"
                link.kill()
