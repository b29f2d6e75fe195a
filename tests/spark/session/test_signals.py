"""Ctrl-C and SIGTERM: a script ends soon and in good order at any moment, and leaves nothing behind."""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pystorm_spark.spark.session.signals import Interrupts, Patience, Terminated
from tests.spark.components import wait_until
from tests.spark.processes import slot_processes

ROOT = Path(__file__).resolve().parents[3]
INT, TERM = signal.SIGINT, signal.SIGTERM
INTERRUPTED, TERMINATED = -INT, 128 + TERM  # exit codes of a script

SCRIPT = """
import sys, time
from pathlib import Path
from pystorm_spark import SparkCluster, StormSubmitter
from tests.spark.components import Numbers, Sum
from tests.spark.conftest import Journal
from pystorm_spark import TopologyBuilder

journal = Journal(Path(sys.argv[1]))

class SlowSum(Sum):
    def prepare(self, conf, context, collector):
        journal.note("preparing", 1)
        time.sleep({prepare})
        super().prepare(conf, context, collector)

    def cleanup(self):
        journal.note("cleaning", 1)
        time.sleep({cleanup})
        super().cleanup()

builder = TopologyBuilder()
builder.set_spout("numbers", Numbers(10_000_000, journal, rate=1000), 2)
builder.set_bolt("sum", SlowSum(journal), 2).fields_grouping("numbers", ["number"])
conf = {{"topology.workers": 2, "topology.max.spout.pending": 10}}
journal.note("started", 1)
{run}
"""
CLUSTER = """
with SparkCluster() as cluster:
    cluster.submit_topology("t", conf, builder.create_topology()).await_termination()
"""
KILL = """
with SparkCluster() as cluster:
    cluster.submit_topology("t", conf, builder.create_topology())
    cluster.kill_topology("t")
    journal.note("killed", 1)
    time.sleep(60)
"""
SUBMITTER = 'StormSubmitter.submit_topology("t", conf, builder.create_topology())'


@pytest.fixture
def script():
    """Start scripts; when the test ends, they must have left nothing behind."""
    folder = Path(tempfile.mkdtemp(prefix="s-"))  # Spark needs short paths
    (folder / "t").mkdir()
    before = slot_processes()
    started = Script(folder)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.communicate()
        pytest.fail("the script had to be killed")
    wait_until(lambda: not slot_processes() - before, secs=10)
    wait_until(lambda: not list((folder / "t").glob("pystorm-*")), secs=10)
    wait_until(lambda: not named_in_processes(str(folder)), secs=30)
    shutil.rmtree(folder)


def named_in_processes(text):
    """Find the processes with `text` in their command line; the JVM of a script has its folder there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes():
                found.append(path)
    return found


class Script:
    """A process with a journal."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, run, prepare=0, cleanup=0):
        (self.folder / "script.py").write_text(SCRIPT.format(run=run, prepare=prepare, cleanup=cleanup))
        self.spawn(str(self.folder / "script.py"), str(self.folder / "journal"))

    def spawn(self, *arguments):
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.folder / "t")}
        self.process = subprocess.Popen(
            [sys.executable, *arguments], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def noted(self, topic):
        return list((self.folder / "journal").glob(f"{topic}-*"))

    def reaches(self, topic, count=1):
        wait_until(lambda: len(self.noted(topic)) >= count or self.process.poll() is not None, secs=240)
        assert len(self.noted(topic)) >= count, self.process.stdout.read()

    def tell(self, number):
        self.process.send_signal(number)

    def end(self):
        """Wait for its end, and return its output."""
        return self.process.communicate(timeout=120)[0]


@pytest.mark.spark
@pytest.mark.parametrize(("number", "ends"), [(INT, INTERRUPTED), (TERM, TERMINATED)])
def test_a_signal_while_spark_starts_ends_the_script(script, number, ends):
    script.start(CLUSTER)
    script.reaches("started")
    wait_until(lambda: list((script.folder / "t").glob("pystorm-*/spark.log")), secs=120)

    script.tell(number)
    out = script.end()

    assert script.process.returncode == ends, out


@pytest.mark.spark
def test_a_signal_while_a_component_is_prepared_ends_the_script(script):
    script.start(CLUSTER, prepare=600)
    script.reaches("preparing", 2)

    script.tell(TERM)
    out = script.end()

    assert script.process.returncode == TERMINATED, out


@pytest.mark.spark
def test_a_signal_closes_the_components_of_a_running_script(script):
    script.start(CLUSTER)
    script.reaches("acked")

    script.tell(TERM)
    out = script.end()

    assert script.process.returncode == TERMINATED, out
    assert "Traceback" not in out
    assert len(script.noted("closed")) == 2
    assert len(script.noted("cleaned")) == 2


@pytest.mark.spark
@pytest.mark.parametrize(("run", "ends"), [(CLUSTER, INTERRUPTED), (SUBMITTER, 0)], ids=["cluster", "submitter"])
def test_the_second_signal_ends_a_script_whose_components_take_long_to_close(script, run, ends):
    script.start(run, cleanup=600)
    script.reaches("acked")
    script.tell(INT)
    script.reaches("cleaning", 2)

    script.tell(INT)
    out = script.end()

    assert script.process.returncode == ends, out
    assert not script.noted("cleaned")


@pytest.mark.spark
def test_a_second_signal_at_the_end_of_the_shutdown_leaves_nothing_behind(script):
    script.start(CLUSTER)
    script.reaches("acked")
    folders = list((script.folder / "t").glob("pystorm-*"))
    script.tell(TERM)
    wait_until(lambda: not all(folder.exists() for folder in folders))

    script.tell(TERM)
    out = script.end()

    assert script.process.returncode in (TERMINATED, -TERM), out
    assert "Traceback" not in out


@pytest.mark.spark
def test_an_interrupted_kill_completes_before_the_script_ends(script):
    script.start(KILL, cleanup=2)
    script.reaches("cleaning", 2)

    script.tell(INT)
    out = script.end()

    assert script.process.returncode == INTERRUPTED, out
    assert len(script.noted("cleaned")) == 2
    assert not script.noted("killed")


@pytest.mark.spark
@pytest.mark.parametrize("number", [INT, TERM])
def test_the_demo_ends_with_its_summary(script, number):
    script.spawn(str(ROOT / "examples" / "demo.py"), "--secs", "600", "--rate", "100")
    lines = []
    for line in script.process.stdout:
        lines.append(line)
        if "sentences acked" in line:
            break

    script.tell(number)
    out = "".join(lines) + script.end()

    assert script.process.returncode == 0, out
    assert "interrupted after" in out
    assert "Traceback" not in out


# The parts of the shutdown, in this process.


class Handlers:
    """A signal handler that records signals."""

    def __init__(self):
        self.seen = []

    def __call__(self, number, frame):
        self.seen.append(number)


@pytest.fixture
def handled():
    """Install a handler of the user for both signals."""
    handler = Handlers()
    before = {number: signal.signal(number, handler) for number in (INT, TERM)}
    yield handler
    for number, old in before.items():
        signal.signal(number, old)


def test_a_signal_waits_until_the_current_step_has_ended(handled):
    hurried = []
    with Patience(lambda: hurried.append(True)):
        signal.raise_signal(INT)
        assert handled.seen == []

    assert handled.seen == [INT]
    assert not hurried


def test_the_second_signal_hurries_the_shutdown(handled):
    hurried = []
    with Patience(lambda: hurried.append(True)):
        signal.raise_signal(INT)
        signal.raise_signal(TERM)
        assert hurried

    assert handled.seen == [INT]


def test_a_signal_that_cannot_wait_interrupts_and_survives_a_swallowed_exception(handled):
    hurried = []
    with Patience(lambda: hurried.append(True), hurry_at_once=True):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(INT)
        assert handled.seen == []

    assert hurried
    assert handled.seen == [INT]


def test_after_an_interrupt_the_next_signal_hurries_the_shutdown(handled):
    hurried = []
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with Patience(lambda: hurried.append(True)):
            signal.raise_signal(TERM)

    assert hurried
    assert handled.seen == []


def test_py4j_logs_nothing_for_an_interrupt_that_it_passes_on(caplog):
    interrupts = Interrupts()
    try:
        logging.error("KeyboardInterrupt while sending command.")
        logging.error("something else")
    finally:
        interrupts.release(None)
    logging.error("KeyboardInterrupt while sending command.")

    assert caplog.messages == ["something else", "KeyboardInterrupt while sending command."]


def test_handlers_of_the_user_are_kept(handled):
    interrupts = Interrupts()
    interrupts.replace_sparks()
    signal.raise_signal(INT)
    signal.raise_signal(TERM)
    interrupts.release(None)

    assert handled.seen == [INT, TERM]
    assert signal.getsignal(TERM) is handled


def test_sigterm_interrupts_and_ends_the_script_with_its_own_status(handled):
    signal.signal(TERM, signal.SIG_DFL)
    interrupts = Interrupts()
    with pytest.raises(KeyboardInterrupt) as raised:
        signal.raise_signal(TERM)
    with pytest.raises(Terminated) as ended:
        interrupts.release(raised.value)

    assert ended.value.code == TERMINATED
    assert signal.getsignal(TERM) is signal.SIG_DFL


def test_other_threads_leave_signals_alone(handled):
    def close():
        interrupts = Interrupts()
        with Patience(lambda: None):
            pass
        interrupts.release(None)

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert signal.getsignal(INT) is handled
