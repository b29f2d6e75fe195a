"""Internal. Run: the slots of one topology on Spark, and the driver's loop, from their placing to their end."""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession

from pystorm_spark.checkpoint.commit_log import refuse_loss
from pystorm_spark.cluster.checks import state_not_open
from pystorm_spark.cluster.info import Tally
from pystorm_spark.errors import StormError, in_words
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.spark.counts import Counts
from pystorm_spark.spark.driver.commits import Checkpoint
from pystorm_spark.spark.driver.control import Control
from pystorm_spark.spark.driver.engine import Limits
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.placing import Launch, Pins, await_executors, launch_of, place
from pystorm_spark.spark.driver.reception import Reception
from pystorm_spark.spark.errors import translated
from pystorm_spark.spark.exchange.chain import Chains
from pystorm_spark.spark.exchange.visit import Order
from pystorm_spark.spark.protocol.messages import (
    Assignment,
    Crashed,
    Failed,
    FileRequest,
    Letter,
    LetterKept,
    Message,
    Refused,
    Settled,
    Stats,
    Stop,
)
from pystorm_spark.spark.protocol.process import ProcessId
from pystorm_spark.spark.protocol.slot_errors import unpack_error
from pystorm_spark.spark.protocol.versions import check_versions, versions
from pystorm_spark.spark.protocol.wire import Connection, private_folder
from pystorm_spark.spark.rows.feeding import Feeder, Stopped
from pystorm_spark.spark.rows.sinking import Sinks
from pystorm_spark.spark.session.limits import check_open_files
from pystorm_spark.spark.session.session import driver_hosts, is_local
from pystorm_spark.spark.slot.fed_spout import FedSpout
from pystorm_spark.spark.slot.process import START_LIMIT_KEY
from pystorm_spark.spark.storage.place import Place
from pystorm_spark.topology.view import CheckpointView

log = logging.getLogger(__name__)

LATE_START_SECS = 10.0  # for slots that were still starting when they are told to end
SUSPICION = 4  # times as long as a tuple may take, after which a suspect that has not come again is forgotten


class Run:
    """The slots of one plan, from their placing to their end; a rebalance makes another run."""

    def __init__(
        self, plan: Plan, session: SparkSession, parent: Path, checkpoint: Place, past: Tally, sinks: Sinks
    ) -> None:
        check_open_files(plan.slots)
        self._place = checkpoint
        self._checkpoint = self._checkpoint_of(plan, checkpoint)
        self.failure: BaseException | None = None  # why a slot could not start
        self.cause: BaseException | None = None  # the same, or what has crashed a slot, whichever came last
        self.jobs = 0
        self._exchanging: Future[dict[int, str]] | None = None
        self._writing = False
        self._session = session
        self._plan = plan
        self._sinks = sinks
        self._pickled = pickled(plan)
        await_executors(session.sparkContext, plan.slots)
        self._folder = private_folder(parent) if is_local(session) else None
        self._control = self._listen()
        self.driver = Driver(plan.slots, self, self.token, limits_of(plan), keeper=self._checkpoint)
        self.feeders = self._make_feeders()
        self._counts = Counts(self.driver.slots, past)
        self._reception = Reception(self.driver, self._control, self)
        self._launch = self._launch_from(parent)
        self._chains = Chains(session.sparkContext)
        self._pins = Pins()
        self._processes: dict[int, ProcessId] = {}  # of slots on this machine
        self._first = random.randrange(1 << 16)  # not all topologies begin with the same executor

    def _checkpoint_of(self, plan: Plan, place: Place) -> Checkpoint | None:
        """Where commits are kept; None, after a look that this loses no state, where there is none."""
        if plan.has_commits:
            return Checkpoint(plan, place, self._write_rows)
        if "state" in place.folders():
            refuse_loss((place / "state").files(), plan.conf["topology.name"])
        return None

    def _listen(self) -> Control:
        host, known_as = ("", "") if self._folder else driver_hosts(self._session)
        try:
            return Control(self._folder, host, self, known_as)
        except OSError as exc:
            raise StormError(
                f"the driver cannot listen at {host!r} ({exc}); set spark.driver.bindAddress to an address of its own "
                "machine at which executors reach it"
            ) from exc

    def _make_feeders(self) -> dict[str, Feeder]:
        """What feeds each spout that gets rows of a DataFrame."""
        plan = self._plan
        by_ids = plan.committed_spouts if plan.conf["topology.state.guarantee"] == "exactly-once" else ()
        return {
            id_: Feeder(self.driver.slots, self.token, plan.tasks[id_], plan.slot_of, by_ids=id_ in by_ids)
            for id_, spec in plan.specs.items()
            if isinstance(spec.component, FedSpout)
        }

    def _launch_from(self, parent: Path) -> Launch:
        """What a slot's process is started with."""
        # On one machine it has the driver's environment, too. That may hold secrets, so it goes to no other machine.
        environ = {**(os.environ if self._folder else {}), **(self._plan.conf["topology.environment"] or {})}
        return launch_of(self._control.address, self.token, self._folder, parent, environ)

    # What the driver's loop needs.

    def place(self, slots: list[int]) -> None:
        started, pin = place(self._session.sparkContext, self._launch, slots, self._first)
        self._processes.update(started)
        if pin is not None:
            self._pins.put(slots, pin)

    def has_lost(self, slots: list[int]) -> bool:
        processes = [self._processes.get(slot) for slot in slots]
        return any(process is not None and not process.is_alive() for process in processes)

    def turn(self) -> None:
        """Run a batch. What ends the topology is told by it, and not by Spark's query, too."""
        try:
            self.driver.batch()
        except Exception as exc:
            raise Stopped(str(exc)) from None

    def exchange(self, order: Order, exchanges: int) -> Future[dict[int, str]]:
        self.jobs += 1
        with translated():
            self._exchanging = running = self._chains.start(order, exchanges)
        running.add_done_callback(lambda _: self.driver.slots.nudge())
        return running

    def _write_rows(self, txid: int, rows: Mapping[int, Mapping[int, int]]) -> bool:
        """Have the sinks write what slots have set apart; False if one of these was lost, or all is ending."""
        shelves = [
            (task, txid, link)
            for slot, counts in rows.items()
            for task in counts
            if (link := self.driver.slots.links[slot]) is not None
        ]
        self._writing = True
        try:
            return self._sinks.write(txid, self._plan.tasks, shelves, self.token, self.driver.slots.pause)
        finally:
            self._writing = False

    @property
    def commit_secs(self) -> float:
        """How long what is complete may wait for a commit to begin."""
        return self._checkpoint.interval_secs if self._checkpoint is not None else 0.0

    @property
    def token(self) -> bytes:
        return self._control.token

    # What slots say.

    def assignment(self, link: SlotLink, theirs: dict[str, str]) -> Assignment | Refused:
        slots, poison = self.driver.slots, self.driver.restarts.poison
        if link.slot not in slots.links:
            raise StormError(f"there is no slot {link.slot}, only {len(slots.links)}")
        try:
            check_versions(versions(), theirs)
        except StormError as exc:
            slots.refuse(str(exc))
            return Refused()
        is_careful, checkpoint = self.driver.restarts.has_died(link.slot), None
        if self._checkpoint is not None:
            checkpoint = self._checkpoint.assignment(link.slot)
        start_secs, told = slots.limits.start_secs, poison.told()
        epoch, opens = slots.admit(link)
        return Assignment(
            self._pickled, start_secs, is_careful, told["suspects"], told["condemned"], checkpoint, epoch, opens
        )

    def on_message(self, link: SlotLink, message: Message) -> None:
        self._reception.on_message(link, message)

    def on_stats(self, link: SlotLink, message: Stats) -> None:
        self._counts.on_stats(link, message)

    def on_settled(self, link: SlotLink, message: Settled) -> None:
        self.feeders[self._plan.component_of[message.task]].on_settled(link, message)

    def on_letter(self, link: SlotLink, message: Letter) -> None:
        error = None
        try:
            self._place.add_component_letter(message.component, message.line)
        except Exception as exc:
            error = in_words(exc)
        log.warning("%s writes a dead letter, kept in %s: %s", message.component, self._place, message.line)
        link.tell(LetterKept(message.number, error))

    def on_cause(self, message: Failed | Crashed) -> None:
        self.cause = unpack_error(message.cause)
        if isinstance(message, Failed):
            self.failure = self.cause

    def on_end(self, link: SlotLink) -> None:
        self._counts.keep(link)
        self.driver.on_end(link)

    def on_lease(self) -> None:
        self.driver.look_for_silence()

    def on_file(self, connection: Connection, request: FileRequest) -> None:
        assert self._checkpoint is not None
        self._checkpoint.serve(connection, request)

    # What the cluster asks.

    @property
    def past(self) -> Tally:
        """What slots that are gone have counted, those of earlier runs included."""
        return self._counts.past

    def count(self, tally: Tally) -> None:
        """Add what all tasks have counted to `tally`, as of now for those whose slot answers."""
        self._counts.add_to(tally)

    def is_moving(self) -> bool:
        """Whether a slot is at work or not there, frames are on their way from slot to slot, or a sink writes.

        A job that came and went meanwhile shows in `jobs`.
        """
        self._counts.ask()
        links = self.driver.slots.there()
        waiting = any(link.state != "ready" or link.is_at_work or link.inbox_bytes for link in links)
        is_exchanging = self._exchanging is not None and not self._exchanging.done()
        return is_exchanging or self._writing or waiting or len(links) < len(self.driver.slots.links)

    def checkpoint_view(self, component: str) -> CheckpointView | None:
        """What the last commit says of a component with state; None if it says nothing."""
        return self._checkpoint.view(component) if self._checkpoint is not None else None

    def check_state(self) -> None:
        """Raise a `StormError` if the last commit is not there any more."""
        if self._checkpoint is not None:
            self._checkpoint.check()

    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        """{key: value} as of the last commit, for one key, or for all if it is None."""
        if not self.driver.slots.is_open and self._checkpoint is not None and self._checkpoint.holds_state():
            raise state_not_open(component)
        codec = ValueCodec()
        packed = None if key is None else codec.pack([key])
        found: dict[Any, Any] = {}
        for answer in self.driver.questions.read(component, packed):
            found.update(codec.unpack_rows(answer, 1)[0][0])
        return found

    def kill(self) -> None:
        """End the slots of this machine the hard way."""
        self._control.kill_all()

    def close(self) -> None:
        """End every slot and all that belongs to them."""
        starting = self._control.starting()  # one that has opened its components has to close them, too
        for link in starting:
            link.tell(Stop())
        self.driver.slots.stop()
        self._control.await_end(starting, LATE_START_SECS)
        self._control.close()
        self._chains.close()
        self._pins.remove()
        for link in self.driver.slots.there():
            self._counts.keep(link)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def pickled(plan: Plan) -> bytes:
    """The plan as slots get it."""
    components = pickle_components(plan)  # first: its errors name the component and the attribute
    found: bytes = cloudpickle.dumps((cloudpickle.dumps(plan), components, execute_timeout(plan)))
    return found


def execute_timeout(plan: Plan) -> float:
    """How many seconds a call of user code may take."""
    conf = plan.conf
    return float(conf["topology.execute.timeout.secs"] or 2 * conf["topology.message.timeout.secs"])


def limits_of(plan: Plan) -> Limits:
    """What the driver bears, by the configuration of a topology."""
    conf, message_secs = plan.conf, plan.conf["topology.message.timeout.secs"]
    return Limits(
        max_restarts=conf["topology.slot.max.restarts"],
        silence_secs=execute_timeout(plan),
        start_secs=float(conf[START_LIMIT_KEY]),
        drain_secs=2.0 * message_secs,
        poison_deaths=conf["topology.poison.deaths"],
        suspicion_secs=SUSPICION * max(execute_timeout(plan), message_secs),
    )
