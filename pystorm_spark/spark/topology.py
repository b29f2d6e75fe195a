"""Internal. SparkTopology: one topology on Spark. Its slots, the driver's loop, and the query that turns it."""

from __future__ import annotations

import itertools
import logging
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession

from pystorm_spark.cluster import ACTIVE, INACTIVE, KILLED, REBALANCING, Tally, TopologyHandle, TopologyInfo
from pystorm_spark.errors import StormError
from pystorm_spark.metrics.stats import ErrorInfo, TaskStats
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.spark.control import Control, SlotLink, check_versions
from pystorm_spark.spark.driver import Driver
from pystorm_spark.spark.exchange import Order, run_chain
from pystorm_spark.spark.placing import Launch, log_level, place
from pystorm_spark.spark.process import machine
from pystorm_spark.spark.session import is_local
from pystorm_spark.spark.slot_process import versions
from pystorm_spark.spark.wire import private_folder

log = logging.getLogger(__name__)

STATS_SECS = 2.0  # how long a question for the latest counts waits for a slot that is held up


class Run:
    """The slots of one plan, from their placing to their end; a rebalance makes another run."""

    def __init__(self, plan: Plan, session: SparkSession, parent: Path, on_gone: Any) -> None:
        self._session = session
        self._pickled = cloudpickle.dumps((plan, pickle_components(plan), _execute_timeout(plan)))
        self._folder = private_folder(parent) if is_local(session) else None
        self._on_gone = on_gone
        host = "" if self._folder else socket.gethostbyname(socket.gethostname())
        limit = plan.conf["topology.slot.inbox.max.bytes"]
        self._control = Control(self._folder, host, limit, self)
        token = self._control.token
        self.driver = Driver(plan.slots, self, token, plan.conf["topology.slot.max.restarts"], _execute_timeout(plan))
        self._launch = Launch(
            self._control.address,
            token,
            str(self._folder) if self._folder else None,
            machine(),
            tuple(path or str(Path.cwd()) for path in sys.path),
            str(Path.cwd()),
            log_level(),
        )
        self._asked = itertools.count(1)
        self._answers: dict[int, set[int]] = {}  # {question: slots that have answered it}
        self._answered = threading.Condition()

    # What the driver's loop needs.

    def place(self, slots: list[int]) -> None:
        place(self._session.sparkContext, self._launch, slots)

    def exchange(self, order: Order, exchanges: int) -> dict[int, str]:
        return run_chain(self._session.sparkContext, order, exchanges)

    # What slots say.

    def assignment(self, slot: int, theirs: dict[str, str]) -> dict[str, Any]:
        try:
            check_versions(versions(), theirs)
        except StormError as exc:
            self.driver.refuse(str(exc))
            return {"kind": "refused"}
        driver = self.driver
        return {"kind": "assignment", "plan": self._pickled, "epoch": driver.epoch, "open": driver.is_open}

    def on_message(self, link: SlotLink, message: dict[str, Any]) -> None:
        if message["kind"] == "stats" and message["asked"] is not None:
            with self._answered:
                self._answers.get(message["asked"], set()).add(link.slot)
                self._answered.notify_all()
        else:
            self.driver.on_message(link, message)

    def on_end(self, link: SlotLink) -> None:
        tasks, link.tasks = link.tasks, []
        self._on_gone(tasks)
        self.driver.on_end(link)

    def on_lease(self) -> None:
        self.driver.look_for_silence()

    def tasks(self) -> list[Any]:
        """[component, counts, errors] of every task, as of now if its slot answers."""
        links = [link for link in self.driver.slots.values() if link is not None]
        asked = next(self._asked)
        ready = {link.slot for link in links if link.state == "ready"}
        with self._answered:
            answered = self._answers[asked] = set()
        for link in links:
            link.tell("stats", asked=asked)
        with self._answered:
            self._answered.wait_for(lambda: answered >= ready, STATS_SECS)
            del self._answers[asked]
        return [task for link in links for task in link.tasks]

    def close(self) -> None:
        """End every slot and all that belongs to them."""
        self.driver.stop()
        self._control.close()
        for link in self.driver.slots.values():
            if link is not None:
                tasks, link.tasks = link.tasks, []
                self._on_gone(tasks)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class SparkTopology(TopologyHandle):
    """One topology on Spark, through all its runs."""

    def __init__(self, name: str, plan: Plan, session: SparkSession, folder: Path, checkpoint: Path) -> None:
        self.name = name
        self.id = plan.storm_id
        self.plan = plan
        self.status = INACTIVE
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self._session = session
        self._folder = folder
        self._checkpoint = checkpoint
        self._started_at = time.monotonic()
        self._past = Tally(plan.specs)  # of slots that are gone
        self._run = self._new_run(plan)
        self._query: Any = None
        self._queries = itertools.count(1)
        self._closing = threading.Lock()

    def _new_run(self, plan: Plan) -> Run:
        return Run(plan, self._session, self._folder, self._keep)

    def start(self, active: bool) -> None:
        """Place the slots, open them if `active`, then let the query turn the loop."""
        self._run.driver.start(is_open=active)
        self._start_query()
        if active:
            self.set_active(True)

    def _start_query(self) -> None:
        stream = self._session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        writer = stream.writeStream.foreachBatch(self._batch).trigger(processingTime="0 seconds")
        # The trigger's own log says nothing that is needed again: each query begins a new one.
        log_folder = self._checkpoint / f"trigger-{next(self._queries)}"
        self._query = writer.option("checkpointLocation", str(log_folder)).queryName(log_folder.name).start()
        threading.Thread(target=self._await_query, name=f"pystorm-{self.name}", daemon=True).start()

    def _batch(self, _: Any, batch_id: int) -> None:
        self._run.driver.batch()

    def _await_query(self) -> None:
        query = self._query
        try:
            query.awaitTermination()
        except Exception as exc:
            error: BaseException | None = self._run.driver.error or exc
        else:
            error = self._run.driver.error
        if self.status not in (KILLED, REBALANCING):
            self.error = error or StormError(f"the streaming query of topology {self.name!r} was stopped")
            log.error("topology %s ended: %s", self.name, self.error)
            self.close()

    def set_active(self, active: bool) -> None:
        """Have the spouts emit, or rest."""
        self._run.driver.set_active(active)
        self.status = ACTIVE if active else INACTIVE

    def rebalance(self, plan: Plan, wait_secs: float) -> None:
        """Rest for `wait_secs`, then start all tasks anew by another plan; whether they are active stays as it was."""
        status, is_open = self.status, self._run.driver.is_open
        self.set_active(False)
        self.status = REBALANCING
        self.ended.wait(wait_secs)
        self._run.close()  # first: a query ends only when its batch has returned
        self._query.stop()
        self.plan = plan
        self._run = self._new_run(plan)
        self._run.driver.start(is_open)
        self._start_query()
        self.status = status
        if status == ACTIVE:
            self.set_active(True)

    def close(self) -> None:
        """End the topology: its components are closed, its processes are gone."""
        with self._closing:
            if self.ended.is_set():
                return
            self.status = KILLED
            self._run.close()
            if self._query is not None:
                self._query.stop()
            self.ended.set()

    def await_termination(self, timeout: float | None = None) -> bool:
        ended = self.ended.wait(timeout)
        if ended and self.error is not None:
            raise self.error
        return ended

    # Counts.

    def _keep(self, tasks: list[Any]) -> None:
        """What a slot that is gone had counted still counts."""
        for component, counted, errors in tasks:
            self._past.add_ended(component, TaskStats(**counted), [ErrorInfo(*error) for error in errors])

    def info(self) -> TopologyInfo:
        """The status, with the latest counts."""
        plan, tally = self.plan, self._past.copy()
        for component, counted, errors in self._run.tasks():
            tally.add(component, TaskStats(**counted), [ErrorInfo(*error) for error in errors])
        uptime = time.monotonic() - self._started_at
        components = tally.components(plan.topology, plan.tasks)
        conf = dict(plan.conf)
        return TopologyInfo(self.name, self.id, self.status, uptime, plan.slots, conf, tally.pending, components)


def _execute_timeout(plan: Plan) -> float:
    conf = plan.conf
    return float(conf["topology.execute.timeout.secs"] or 2 * conf["topology.message.timeout.secs"])
