"""A slot process whose driver stands still: it reads nothing and says nothing."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import cloudpickle
import msgpack
import pytest

from pystorm_spark import Spout, TopologyBuilder
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.spark.driver import control
from pystorm_spark.spark.driver.control import Control
from pystorm_spark.spark.driver.placing import START
from pystorm_spark.spark.protocol.messages import Assignment
from pystorm_spark.spark.protocol.process import process_id
from pystorm_spark.spark.protocol.wire import private_folder
from pystorm_spark.spark.slot.process import ORPHANED
from pystorm_spark.topology.config import resolve


class Talks(Spout):
    """Prints forever in `open`."""

    outputs = ("nothing",)

    def open(self, conf, context, collector):
        while True:
            print("x" * 1000)


class StandsStill:
    """A driver that gives a slot its assignment, and hears its first word for ever."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(control, "LEASE_INTERVAL_SECS", 3600.0)
        builder = TopologyBuilder()
        builder.set_spout("talks", Talks())
        plan = make_plan(builder.create_topology(), resolve({}), "talking-1-0", 1)
        self.pickled = cloudpickle.dumps((cloudpickle.dumps(plan), pickle_components(plan), 60.0))
        self.ended = threading.Event()
        self.folder = private_folder()
        self.control = Control(self.folder, "", self)
        self.control._is_near = False

    def assignment(self, link, versions):
        return Assignment(
            plan=self.pickled,
            start_secs=600.0,
            is_careful=False,
            suspects=[],
            condemned=[],
            checkpoint=None,
            epoch=1,
            opens=True,
        )

    def on_message(self, link, message):
        self.ended.wait()

    def on_end(self, link):
        pass

    def on_lease(self):
        pass

    def start_slot(self):
        here = list(process_id(os.getpid()))
        spec = {
            "slot": 0,
            "token": self.control.token,
            "control": list(self.control.address),
            "folder": str(self.folder),
            "host": "",
            "executor": here,
            "driver": here,
            "files": None,
            "sys_path": sys.path,
            "log_level": 30,
        }
        command = [sys.executable, "-c", START]
        return subprocess.run(command, input=msgpack.packb(spec), cwd=Path(__file__).parents[3], timeout=120)

    def close(self):
        self.ended.set()
        self.control.close()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()


@pytest.fixture
def driver(monkeypatch):
    made = StandsStill(monkeypatch)
    yield made
    made.close()


@pytest.mark.slow
def test_a_slot_that_waits_for_its_driver_to_read_ends_by_its_lease(driver):
    assert driver.start_slot().returncode == ORPHANED
