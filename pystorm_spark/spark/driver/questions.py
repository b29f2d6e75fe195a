"""Internal. Questions: what all slots are asked at once, and which of them have answered."""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.protocol.messages import (
    Activate,
    Answer,
    Asking,
    Collect,
    Collected,
    Deactivate,
    EndInput,
    Found,
    Mark,
    NotDone,
    Quiesce,
    Read,
)

log = logging.getLogger(__name__)

LONGEST_CALL_SECS = 1e6  # of `input_ended`; a slot that hangs in it is killed before
ANSWER_SECS = 30.0  # for slots that are busy with user code


@dataclass
class Question:
    """What slots were told to do, and which of them have done it.

    Listening threads add answers while the driver's loop looks who has not answered: nothing here is iterated that
    another thread changes.
    """

    asked: frozenset[SlotLink]
    kind: str = ""
    until: float = math.inf  # when a slot that has not answered is killed, if others cannot go on without it
    answers: dict[int, Answer] = field(default_factory=dict)  # {slot: its answer}

    def is_answered(self) -> bool:
        """Whether every slot that still lives has answered."""
        return not self.unanswered()

    def unanswered(self) -> list[int]:
        """The slots that live and have not answered."""
        return sorted(link.slot for link in self.silent() if link.state == "ready")

    def silent(self) -> Iterator[SlotLink]:
        """All that have not answered, also those that are gone."""
        return (link for link in self.asked if link.slot not in self.answers)

    def failures(self) -> list[str]:
        """What user code has raised."""
        return [answer.why for answer in list(self.answers.values()) if isinstance(answer, NotDone)]


class Questions:
    """Asks all slots that are ready. All of them hear questions in the same order."""

    def __init__(self, slots: Slots, drain_secs: float) -> None:
        self._slots = slots
        self._state = slots.state
        self._changed = slots.changed
        limits = slots.limits
        self._start_secs = limits.start_secs + ANSWER_SECS
        # To answer, a slot may have to return from user code, then call some, then write what a start has to read.
        self._answer_secs = 2 * limits.silence_secs + self._start_secs
        self._drain_secs = drain_secs
        self._numbers = itertools.count(1)
        self._open: dict[int, Question] = {}  # those that are not yet answered
        self._telling = threading.RLock()  # held while slots are asked

    def on_answer(self, link: SlotLink, answer: Answer) -> None:
        """A slot answers; called with the driver's lock held."""
        question = self._open.get(answer.asked)
        if question is not None and link in question.asked:
            question.answers[link.slot] = answer

    def ask(self, message: Asking) -> Question:
        """Tell the slots to do something; they answer when they have done it."""
        with self._changed:
            links = self._slots.ready()
            self._open = {number: question for number, question in self._open.items() if question.unanswered()}
            number = next(self._numbers)
            secs = self._answer_secs + (self._drain_secs if isinstance(message, (Quiesce, Mark)) else 0.0)
            until = self._changed.monotonic() + secs
            question = self._open[number] = Question(frozenset(links), message.kind, until)
        with self._telling:  # all hear a commit before they are asked what is committed, or all after it
            for link in links:
                link.tell(replace(message, asked=number))
        return question

    def ask_all(self, message: Asking, secs: float = ANSWER_SECS) -> Question:
        """Tell the slots something and wait until each has done it, is gone, or takes too long."""
        question = self.ask(message)
        self._await_answers(question, secs)
        return question

    def _await_answers(self, question: Question, secs: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: question.is_answered() or self._state.is_ended, secs)
            busy = [] if self._state.is_ended else question.unanswered()
        if busy:
            log.warning("slots %s are busy with user code and have not answered %r yet", busy, question.kind)

    def set_active(self, active: bool) -> None:
        """Have the spouts emit or pause; returns when every slot has done so. The first time opens the components."""
        secs = self._start_secs if active and not self._slots.is_open else ANSWER_SECS
        with self._telling:  # of two that change it at once, the slots hear last who has set it last
            self._slots.active = active
            self._slots.is_open = self._slots.is_open or active
            question = self.ask(Activate() if active else Deactivate())
        self._await_answers(question, secs)
        for link in question.silent():
            if link.state == "failed":
                raise StormError(link.reason)

    def activate_again(self) -> None:
        """Have the spouts of slots that were started anew emit, if that is still wanted when the slots are asked."""
        with self._telling:
            question = self.ask(Activate()) if self._slots.active else None
        if question is not None:
            self._await_answers(question, ANSWER_SECS)

    def collect(self) -> dict[int, dict[int, int]]:
        """Have bolts set apart what they have collected; {slot: {task: rows}} of the slots that have done so."""
        answers = self.ask_all(Collect()).answers
        return {slot: answer.rows for slot, answer in answers.items() if isinstance(answer, Collected)}

    def end_input(self, component: str) -> None:
        """Have the tasks of a component told that all input has come; raises what they raise."""
        failures = self.ask_all(EndInput(component), LONGEST_CALL_SECS).failures()
        if failures:
            raise StormError(failures[0])

    def read(self, component: str, key: bytes | None) -> list[bytes]:
        """What the slots find of a component's state for a packed key, or for all."""
        question = self._ask_to_read(component, key)
        failures = question.failures()
        if failures:
            raise StormError(f"the state of {component!r} cannot be read: {failures[0]}")
        answers = {slot: answer for slot, answer in question.answers.items() if isinstance(answer, Found)}
        for slot, answer in answers.items():
            if answer.found is None:
                raise StormError(
                    f"slot {slot} holds {answer.size:,} bytes of the state of {component!r}, which is too much to be "
                    "read at once: read it key by key, or with load_state"
                )
        return [answer.found for answer in answers.values() if answer.found is not None]

    def _ask_to_read(self, component: str, key: bytes | None) -> Question:
        """The question that all slots have answered."""
        deadline = self._changed.monotonic() + ANSWER_SECS
        while True:
            with self._changed:  # what a slot holds that is being started anew is not nothing
                left = deadline - self._changed.monotonic()
                self._changed.wait_for(lambda: self._state.is_ended or self._slots.are_all_ready(), left)
            question = self.ask_all(Read(component, key))
            silent = sorted(set(self._slots.links) - set(question.answers))
            if not silent:
                return question
            if self._state.is_ended or self._changed.monotonic() >= deadline:
                raise StormError(
                    f"the state of {component!r} cannot be read now, slots {silent} do not answer: try again"
                )
