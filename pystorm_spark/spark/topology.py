"""Internal. SparkTopology: one topology on Spark, with its runs, and the queries that turn and feed them."""

from __future__ import annotations

import itertools
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pystorm_spark.cluster.checks import check_stateful
from pystorm_spark.cluster.info import Tally, TopologyInfo
from pystorm_spark.cluster.running import ACTIVE, KILLED, RunningTopology
from pystorm_spark.cluster.validation import validate_components
from pystorm_spark.errors import NotAliveError, StormError
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.spark.errors import spark_errors_ignored
from pystorm_spark.spark.rows.sinking import Sinks
from pystorm_spark.spark.rows.sources import Source, SourceQuery, hush_stops
from pystorm_spark.spark.run import Run
from pystorm_spark.spark.session.callback import Callback
from pystorm_spark.spark.session.session import await_end, told, trigger_session
from pystorm_spark.spark.session.signals import Patience
from pystorm_spark.spark.slot.fed_spout import StreamSpout
from pystorm_spark.spark.storage.hadoop_folder import file_uri
from pystorm_spark.spark.storage.place import Place

log = logging.getLogger(__name__)

FINISH_TIMEOUT_SECS = 10.0


class SparkTopology(RunningTopology):
    """One topology on Spark, through all its runs."""

    _warm: ClassVar[WeakSet[SparkContext]] = WeakSet()  # contexts that have run an exchange

    def __init__(
        self,
        name: str,
        planned: Callable[[Mapping[str, Any]], Plan],
        conf: Mapping[str, Any],
        session: SparkSession,
        folder: Path,
        checkpoint: Place,
        temporary: Path | None,
    ) -> None:
        self.plan = planned(conf)
        super().__init__(name, self.plan.storm_id)
        self._sinks = Sinks(self.plan.topology, session, checkpoint)
        self._sources = [
            Source(spec, session, checkpoint, is_kept=temporary is None)
            for spec in self.plan.topology.spouts.values()
            if isinstance(spec.component, StreamSpout)
        ]
        self._planned = planned
        self._session = session
        self._folder = folder
        self._checkpoint = checkpoint
        self._temporary = temporary  # the folder of a temporary checkpoint, which is removed at the end
        self._started_at = time.monotonic()
        self.run = Run(self.plan, session, folder, checkpoint, Tally(self.plan.specs), self._sinks)
        self._query: Any = None
        self._source_queries: list[SourceQuery] = []
        self._queries = itertools.count(1)
        self._changing = threading.RLock()  # guards the run
        self._applying = threading.Lock()  # held while a status is applied; taken before `_changing`
        self.is_run_by_us = False  # True for `run_batch`, which raises the error that ends it, so it is not logged

    @property
    def conf(self) -> Mapping[str, Any]:
        return self.plan.conf

    def validate(self) -> None:
        """Let each component refuse the submit."""
        validate_components(self.plan.topology, self.plan.confs, self.plan.tasks, self.run.checkpoint_view)

    def start(self, active: bool) -> None:
        """Place the slots, open them if `active`, then start the queries."""
        self._start_run(is_open=active)
        if active:
            self.activate()

    def _start_run(self, is_open: bool) -> None:
        run, context = self.run, self._session.sparkContext
        with self._naming_the_cause():
            run.driver.slots.start(is_open)
            if context not in self._warm:  # Spark's first exchange takes seconds, so do one before tuples wait for it
                run.driver.warm_up()
                self._warm.add(context)
        hush_stops()
        stream = trigger_session(self._session).readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        self._turning = Callback(lambda *_: run.turn(), self._session)
        writer = stream.writeStream.foreachBatch(self._turning).trigger(processingTime="0 seconds")
        # Nobody reads the log of the trigger query again, so each query gets a new one.
        number = next(self._queries)
        self._trigger_log = self._folder / "triggers" / f"{self.id}-{number}"
        located = writer.option("checkpointLocation", file_uri(self._trigger_log))
        self._query = located.queryName(f"{self.id}-{number}").start()
        threading.Thread(
            target=self._await_query, args=(self._query,), name=f"pystorm-{self.name}", daemon=True
        ).start()
        for source in self._sources:
            name = f"{self.id}-{number}-{source.id}"
            self._source_queries.append(source.start(run.feeders[source.id], run.token, name, self._fail))

    def _await_query(self, query: Any) -> None:
        try:
            await_end(query, self._session)
        except Exception as exc:
            error: BaseException | None = self.run.driver.state.error or exc
        else:
            error = self.run.driver.state.error
        if query is self._query:  # otherwise `_stop_run` has stopped it
            error = error or StormError(f"the streaming query of topology {self.name!r} was stopped")
            if error.__cause__ is None:
                error.__cause__ = self.run.cause
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the topology with `error`, unless it has already ended."""
        with self._changing:
            if not self.ended.is_set():
                self.error = told(error, self._session)
                level = logging.DEBUG if self.is_run_by_us else logging.ERROR
                log.log(level, "topology %s ended: %s", self.name, self.error)
                self.end()

    @contextmanager
    def _naming_the_cause(self) -> Iterator[None]:
        """If a slot could not start, raise the error from that slot."""
        run = self.run
        try:
            yield
        except StormError:
            if run.failure is None:
                raise
            raise run.failure from run.failure.__cause__

    def apply_status(self) -> None:
        with self._applying:
            if self.ended.is_set():
                raise NotAliveError(f"topology {self.name!r} has ended")
            if self.status == ACTIVE:
                self._activate()
            else:
                self.run.driver.questions.set_active(False)

    def _activate(self) -> None:
        was_open = self.run.driver.slots.is_open
        try:
            with self._naming_the_cause():
                self.run.driver.questions.set_active(True)
        except StormError:
            if not was_open:  # only some tasks are open now, so close all
                self._begin_again(self.plan, is_open=False)
            raise

    def wait(self, secs: float) -> None:
        self.ended.wait(secs)

    def start_anew(self, conf: Mapping[str, Any]) -> None:
        self._begin_again(self._planned(conf), self.run.driver.slots.is_open)

    def _begin_again(self, plan: Plan, is_open: bool) -> None:
        with self._changing:
            if self.ended.is_set():
                raise NotAliveError(f"topology {self.name!r} has ended")
            self.run.check_state()  # otherwise the next run would begin with an empty state
            self._stop_run("restarts")
            self.plan = plan
            self.run = Run(plan, self._session, self._folder, self._checkpoint, self.run.past, self._sinks)
            self._start_run(is_open)

    def _stop_run(self, what: str) -> None:
        """Make a last commit, then close all tasks. `what` says for the log what the topology does next."""
        driver = self.run.driver
        if self._query is not None and self.error is None:
            driver.finish(FINISH_TIMEOUT_SECS)
            if driver.state.error is not None:  # logged here, because the query that it ended is about to be replaced
                log.error("topology %s has failed before its last commit: %s", self.name, driver.state.error)
        query, self._query = self._query, None
        source_queries, self._source_queries = self._source_queries, []
        for source_query in source_queries:
            source_query.stop()
        self.run.close()  # before the joins: a query ends only when its batch has returned
        for source_query in source_queries:
            source_query.join()
        if query is not None:
            with spark_errors_ignored():
                query.stop()
            self._turning.close()
            shutil.rmtree(self._trigger_log, ignore_errors=True)
        if (
            driver.state.unfinished is not None and driver.state.error is None
        ):  # read now: a sink's `write` may have ended meanwhile
            log.warning(
                "topology %s %s without its last commit: %s; sources that can will replay what came after the previous "
                "commit",
                self.name,
                what,
                driver.state.unfinished,
            )

    def refuse_own_thread(self, what: str) -> None:
        if self.run.driver.is_own_thread():
            raise StormError(
                f"topology {self.name!r} cannot be {what} from the write of one of its sinks, because it would wait "
                "for that write to return: do it in another thread; kill_topology is allowed"
            )

    def end(self) -> None:
        if self.run.driver.is_own_thread():  # a sink's `write` calls this, and must return first
            self.status = KILLED
            threading.Thread(target=self.end, name=f"pystorm-{self.name}-end", daemon=True).start()
            return
        with Patience(self.hurry), self._changing:
            if self.ended.is_set():
                return
            self.status = KILLED
            try:
                self._stop_run("ends")
                if self._temporary is not None:
                    shutil.rmtree(self._temporary, ignore_errors=True)
            finally:
                self.ended.set()

    def hurry(self) -> None:
        """Kill the slots, so that nothing waits for them any longer."""
        self.run.kill()

    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        check_stateful(component, self.plan.durable_bolts)
        return self.run.read_state(component, key)

    def info(self) -> TopologyInfo:
        plan, tally = self.plan, Tally(self.plan.specs)
        self.run.count(tally)
        uptime = time.monotonic() - self._started_at
        components = tally.components(plan.topology, plan.tasks)
        conf = dict(plan.conf)
        return TopologyInfo(self.name, self.id, self.status, uptime, plan.slots, conf, tally.pending, components)
