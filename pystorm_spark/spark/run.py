"""Internal. Run: the slots of one topology on Spark, and the driver's loop, from their placing to their end."""

from __future__ import annotations

import itertools
import logging
import os
import random
import shutil
import sys
import threading
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
from pystorm_spark.metrics.stats import ErrorInfo, TaskStats
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.spark.driver.commits import Checkpoint
from pystorm_spark.spark.driver.control import Control, SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.placing import Launch, Pins, await_executors, home, log_level, place
from pystorm_spark.spark.errors import translated
from pystorm_spark.spark.exchange.chain import Chains
from pystorm_spark.spark.exchange.visit import Order
from pystorm_spark.spark.protocol.process import ProcessId, process_id
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

START_SECS = 10.0  # for slots that were still starting when they are told to end
SUSPICION = 4  # times as long as a tuple may take, after which a suspect that has not come again is forgotten
STATS_SECS = 2.0  # how long a question for the latest counts waits for a slot that is held up


class Run:
    """The slots of one plan, from their placing to their end; a rebalance makes another run."""

    def __init__(
        self, plan: Plan, session: SparkSession, parent: Path, checkpoint: Place, past: Tally, sinks: Sinks
    ) -> None:
        check_open_files(plan.slots)
        self._place = checkpoint
        self._checkpoint = Checkpoint(plan, checkpoint, self._write_rows) if plan.has_commits else None
        if self._checkpoint is None and "state" in checkpoint.folders():
            refuse_loss((checkpoint / "state").files(), plan.conf["topology.name"])
        self.failure: BaseException | None = None  # why a slot could not start
        self.cause: BaseException | None = None  # the same, or what has crashed a slot, whichever came last
        self.jobs = 0
        self._exchanging: Future[dict[int, str]] | None = None
        self._writing = False
        self._session = session
        self._plan = plan
        self._sinks = sinks
        components = pickle_components(plan)
        self._pickled = cloudpickle.dumps((cloudpickle.dumps(plan), components, _execute_timeout(plan)))
        self._start_secs = float(plan.conf[START_LIMIT_KEY])
        await_executors(session.sparkContext, plan.slots)
        self._folder = private_folder(parent) if is_local(session) else None
        own_host, known_as = ("", "") if self._folder else driver_hosts(session)
        self._control = self._listen(own_host, known_as)
        token = self._control.token
        restarts = plan.conf["topology.slot.max.restarts"]
        self.driver = Driver(
            plan.slots,
            self,
            token,
            restarts,
            _execute_timeout(plan),
            start_secs=self._start_secs,
            keeper=self._checkpoint,
            drain_secs=2.0 * plan.conf["topology.message.timeout.secs"],
            poison_deaths=plan.conf["topology.poison.deaths"],
            suspicion_secs=SUSPICION * max(_execute_timeout(plan), plan.conf["topology.message.timeout.secs"]),
        )
        self._launch = self._launch_from(parent)
        by_ids = plan.committed_spouts if plan.conf["topology.state.guarantee"] == "exactly-once" else ()
        self.feeders = {
            id_: Feeder(self.driver, token, plan.tasks[id_], plan.slot_of, by_ids=id_ in by_ids)
            for id_, spec in plan.specs.items()
            if isinstance(spec.component, FedSpout)
        }
        self._chains = Chains(session.sparkContext)
        self._pins = Pins()
        self._processes: dict[int, ProcessId] = {}  # of slots on this machine
        self._first = random.randrange(1 << 16)  # not all topologies begin with the same executor
        self._asked = itertools.count(1)
        self._answers: dict[int, set[int]] = {}  # {question: slots that have answered it}
        self._answered = threading.Condition()
        self.past = past  # of slots that are gone, those of earlier runs included
        self._counting = threading.Lock()

    def _listen(self, host: str, known_as: str) -> Control:
        try:
            return Control(self._folder, host, self, known_as)
        except OSError as exc:
            raise StormError(
                f"the driver cannot listen at {host!r} ({exc}); set spark.driver.bindAddress to an address of its own "
                "machine at which executors reach it"
            ) from exc

    def _launch_from(self, parent: Path) -> Launch:
        """What a slot's process is started with."""
        return Launch(
            self._control.address,
            self._control.token,
            str(self._folder) if self._folder else None,
            process_id(os.getpid()),
            home(),
            str(parent),
            tuple(path or str(Path.cwd()) for path in sys.path),
            str(Path.cwd()),
            self._environ(),
            log_level(),
        )

    def _environ(self) -> dict[str, str]:
        """What slots have beside the environment of their executor.

        On one machine it is the driver's. That may hold secrets, so it goes to no other machine.
        """
        return {**(os.environ if self._folder else {}), **(self._plan.conf["topology.environment"] or {})}

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
        running.add_done_callback(lambda _: self.driver.nudge())
        return running

    def _write_rows(self, txid: int, rows: Mapping[int, Mapping[int, int]]) -> bool:
        """Have the sinks write what slots have set apart; False if one of these was lost, or all is ending."""
        shelves = [
            (task, txid, link)
            for slot, counts in rows.items()
            for task in counts
            if (link := self.driver.slots[slot]) is not None
        ]
        self._writing = True
        try:
            return self._sinks.write(txid, self._plan.tasks, shelves, self.token, self.driver.pause)
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

    def assignment(self, link: SlotLink, theirs: dict[str, str]) -> dict[str, Any]:
        if link.slot not in self.driver.slots:
            raise StormError(f"there is no slot {link.slot}, only {len(self.driver.slots)}")
        try:
            check_versions(versions(), theirs)
        except StormError as exc:
            self.driver.refuse(str(exc))
            return {"kind": "refused"}
        return {
            "kind": "assignment",
            "plan": self._pickled,
            "start_secs": self._start_secs,
            "careful": self.driver.has_died(link.slot),
            "poison": self.driver.poison.told(),
            "checkpoint": self._checkpoint.assignment(link.slot) if self._checkpoint is not None else None,
            **self.driver.admit(link),
        }

    def on_message(self, link: SlotLink, message: dict[str, Any]) -> None:
        if message["kind"] == "stats" and message["asked"] is not None:
            with self._answered:
                self._answers.get(message["asked"], set()).add(link.slot)
                self._answered.notify_all()
            return
        if message["kind"] == "letter":
            self._keep_letter(link, message)
            return
        if message["kind"] == "settled":
            self.feeders[self._plan.component_of[message["task"]]].on_settled(link, message)
            self.driver.nudge()
            return
        if "cause" in message:
            self.cause = unpack_error(message["cause"])
            self.failure = self.cause if message["kind"] == "failed" else self.failure
        self.driver.on_message(link, message)

    def _keep_letter(self, link: SlotLink, message: dict[str, Any]) -> None:
        """Write down what a component gives up, and tell it when that is done: it waits."""
        component, line, error = message["component"], message["line"], None
        try:
            self._place.add_component_letter(component, line)
        except Exception as exc:
            error = in_words(exc)
        log.warning("%s writes a dead letter, kept in %s: %s", component, self._place, line)
        link.tell("lettered", number=message["number"], error=error)

    def on_end(self, link: SlotLink) -> None:
        self._keep_counts(link)
        self.driver.on_end(link)

    def on_lease(self) -> None:
        self.driver.look_for_silence()

    def on_file(self, connection: Connection, request: dict[str, Any]) -> None:
        assert self._checkpoint is not None
        self._checkpoint.serve(connection, request)

    # Counts.

    def count(self, tally: Tally) -> None:
        """Add what all tasks have counted to `tally`, as of now for those whose slot answers."""
        self._ask()
        with self._counting:
            tally.add_all(self.past)
            for link in self._links():
                for component, counted, errors in link.tasks:
                    tally.add(component, TaskStats(**counted), [ErrorInfo(*error) for error in errors])

    def is_moving(self) -> bool:
        """Whether a slot is at work or not there, frames are on their way from slot to slot, or a sink writes.

        A job that came and went meanwhile shows in `jobs`.
        """
        self._ask()
        links = self._links()
        waiting = any(link.state != "ready" or link.is_at_work or link.inbox_bytes for link in links)
        is_exchanging = self._exchanging is not None and not self._exchanging.done()
        return is_exchanging or self._writing or waiting or len(links) < len(self.driver.slots)

    def _ask(self) -> None:
        """Have every slot tell how it stands."""
        links = self._links()
        asked = next(self._asked)
        ready = {link.slot for link in links if link.state == "ready"}
        with self._answered:
            answered = self._answers[asked] = set()
        for link in links:
            link.tell("stats", asked=asked)
        with self._answered:
            self._answered.wait_for(lambda: answered >= ready, STATS_SECS)
            del self._answers[asked]

    def _keep_counts(self, link: SlotLink) -> None:
        """What a slot that is gone had counted still counts."""
        with self._counting:
            tasks, link.tasks = link.tasks, []
            for component, counted, errors in tasks:
                self.past.add_ended(component, TaskStats(**counted), [ErrorInfo(*error) for error in errors])

    def _links(self) -> list[SlotLink]:
        return [link for link in self.driver.slots.values() if link is not None]

    def checkpoint_view(self, component: str) -> CheckpointView | None:
        """What the last commit says of a component with state; None if it says nothing."""
        return self._checkpoint.view(component) if self._checkpoint is not None else None

    def check_state(self) -> None:
        """Raise a `StormError` if the last commit is not there any more."""
        if self._checkpoint is not None:
            self._checkpoint.check()

    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        """{key: value} as of the last commit, for one key, or for all if it is None."""
        if not self.driver.is_open and self._checkpoint is not None and self._checkpoint.holds_state():
            raise state_not_open(component)
        codec = ValueCodec()
        packed = None if key is None else codec.pack([key])
        found: dict[Any, Any] = {}
        for answer in self.driver.read(component, packed):
            found.update(codec.unpack_rows(answer, 1)[0][0])
        return found

    def kill(self) -> None:
        """End the slots of this machine the hard way."""
        self._control.kill_all()

    def close(self) -> None:
        """End every slot and all that belongs to them."""
        starting = self._control.starting()  # one that has opened its components has to close them, too
        for link in starting:
            link.tell("stop")
        self.driver.stop()
        self._control.await_end(starting, START_SECS)
        self._control.close()
        self._chains.close()
        self._pins.remove()
        for link in self._links():
            self._keep_counts(link)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _execute_timeout(plan: Plan) -> float:
    conf = plan.conf
    return float(conf["topology.execute.timeout.secs"] or 2 * conf["topology.message.timeout.secs"])
