"""Internal. Reception: what the driver does with each message of a slot. Called in the threads that listen to slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.slot_output import SlotOutput
from pystorm_spark.spark.protocol.messages import (
    ANSWERS,
    Answer,
    Beat,
    Broken,
    Crashed,
    Doing,
    Failed,
    Frames,
    Full,
    Hung,
    Letter,
    Log,
    Message,
    Outlived,
    Print,
    Ready,
    Settled,
    Stats,
    Stopped,
    Uncommitted,
)

Handler = Callable[[SlotLink, Any], None]


class Switchboard(Protocol):
    """The part of `Control` that messages of slots go to."""

    output: SlotOutput

    def tell_lease(self) -> None: ...


class Audience(Protocol):
    """What else of a run wants to know what slots say."""

    def on_stats(self, link: SlotLink, message: Stats) -> None:
        """A slot has sent its counts."""

    def on_settled(self, link: SlotLink, message: Settled) -> None:
        """A task has settled the rows of a round."""

    def on_letter(self, link: SlotLink, message: Letter) -> None:
        """A component waits until a dead letter is durable."""

    def on_cause(self, message: Failed | Crashed) -> None:
        """A slot could not start, or has crashed."""


class Reception:
    """The one table of what slots say. What changes the driver's state is done with the driver's lock held."""

    def __init__(self, driver: Driver, control: Switchboard, audience: Audience) -> None:
        self._driver = driver
        self._control = control
        self._audience = audience
        self._handlers: dict[type[Message], Handler] = {
            Beat: self._on_beat,
            Stats: self._on_stats,
            Full: self._on_full,
            Ready: self._locked(driver.slots.on_ready),
            Failed: self._on_failed,
            Crashed: self._on_crashed,
            Hung: self._on_hung,
            Stopped: self._on_stopped,
            Frames: self._locked(self._on_frames),
            Uncommitted: self._locked(self._on_uncommitted),
            Broken: self._locked(self._on_broken),
            Settled: self._on_settled,
            Letter: self._on_letter,
            Doing: self._on_doing,
            Outlived: self._locked(self._on_outlived),
            Print: self._on_print,
            Log: self._on_log,
            **dict.fromkeys(ANSWERS, self._locked(self._on_answer)),
        }

    def on_message(self, link: SlotLink, message: Message) -> None:
        """Do what a message asks for."""
        self._handlers[type(message)](link, message)

    def handled(self) -> set[type[Message]]:
        """The classes of messages that it knows."""
        return set(self._handlers)

    def _locked(self, handle: Handler) -> Handler:
        def handle_locked(link: SlotLink, message: Any) -> None:
            changed = self._driver.slots.changed
            with changed:
                handle(link, message)
                changed.notify_all()

        return handle_locked

    # Its life.

    def _on_beat(self, link: SlotLink, message: Beat) -> None:
        """The slot lives, which `SlotLink.hear` has noted."""

    def _on_stats(self, link: SlotLink, message: Stats) -> None:
        link.note_standing(message)
        self._audience.on_stats(link, message)

    def _on_full(self, link: SlotLink, message: Full) -> None:
        link.full = message.full
        self._control.tell_lease()  # at once: in half a second slots could send it hundreds of megabytes more

    def _on_failed(self, link: SlotLink, message: Failed) -> None:
        self._audience.on_cause(message)
        self._locked(self._driver.slots.on_failed)(link, message)

    def _on_crashed(self, link: SlotLink, message: Crashed) -> None:
        link.note_standing(message)
        self._audience.on_cause(message)
        self._locked(self._driver.slots.on_crashed)(link, message)

    def _on_hung(self, link: SlotLink, message: Hung) -> None:
        link.note_standing(message)
        self._locked(self._driver.slots.on_hung)(link, message)
        self._control.output.log_hung(link.slot, link.reason, message.stacks)

    def _on_stopped(self, link: SlotLink, message: Stopped) -> None:
        link.note_standing(message)
        self._locked(self._driver.slots.on_stopped)(link, message)

    # Its work.

    def _on_frames(self, link: SlotLink, message: Frames) -> None:
        self._driver.state.note_frames(link.slot)

    def _on_uncommitted(self, link: SlotLink, message: Uncommitted) -> None:
        self._driver.state.note_uncommitted(self._driver.slots.changed.monotonic(), message.is_urgent)

    def _on_broken(self, link: SlotLink, message: Broken) -> None:
        self._driver.state.note_broken()

    def _on_answer(self, link: SlotLink, message: Answer) -> None:
        self._driver.questions.on_answer(link, message)

    def _on_settled(self, link: SlotLink, message: Settled) -> None:
        self._audience.on_settled(link, message)
        self._driver.slots.nudge()

    def _on_letter(self, link: SlotLink, message: Letter) -> None:
        self._audience.on_letter(link, message)

    def _on_doing(self, link: SlotLink, message: Doing) -> None:
        link.note_doing(message)

    def _on_outlived(self, link: SlotLink, message: Outlived) -> None:
        self._driver.restarts.note_survival(link, message.key)

    def _on_print(self, link: SlotLink, message: Print) -> None:
        self._control.output.print(message)

    def _on_log(self, link: SlotLink, message: Log) -> None:
        self._control.output.log(link.slot, message)
