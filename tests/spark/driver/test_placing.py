"""Placing: what is said when a slot cannot be started, and where the driver waits for slots."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pystorm_spark.spark.driver.placing import START, Pins
from pystorm_spark.spark.session.session import driver_hosts

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("command", "environ", "folder", "told"),
    [
        ("/nonexistent/python", {}, None, "[Errno 2] No such file or directory: '/nonexistent/python'"),
        (sys.executable, {}, "/nonexistent/folder", "[Errno 2] No such file or directory: '/nonexistent/folder'"),
        (sys.executable, {"A=B": "c"}, None, "illegal environment variable name"),
        (sys.executable, {"A": "b\0c"}, None, "embedded null byte"),
    ],
)
def test_a_process_that_cannot_be_started_is_an_error_at_once(command, environ, folder, told):
    code = f"from pystorm_spark.spark.driver.placing import _spawn; _spawn([{command!r}], {environ!r}, {folder!r}, b'')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert f"cannot be started: {told}" in done.stderr


def test_a_slot_is_not_made_of_another_copy_of_the_package_in_the_folder_it_works_in(tmp_path):
    (tmp_path / "pystorm_spark").mkdir()
    (tmp_path / "pystorm_spark" / "__init__.py").write_text("raise ImportError('another copy')")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", START]

    done = subprocess.run(command, cwd=tmp_path, env=environ, input="", capture_output=True, text=True, timeout=60)

    assert "another copy" not in done.stderr
    assert "msgpack" in done.stderr  # it has come to what it is told on its standard input


@pytest.mark.parametrize(
    ("bind_address", "listens_at"),
    [(None, "driver.example"), ("10.0.0.7", "10.0.0.7"), ("0.0.0.0", "driver.example"), ("::", "driver.example")],
)
def test_the_driver_listens_at_the_address_that_spark_gives_it_and_never_at_all(bind_address, listens_at):
    settings = {"spark.driver.host": "driver.example", "spark.driver.bindAddress": bind_address}
    session = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: settings))

    assert driver_hosts(session) == (listens_at, "driver.example")


class Pin:
    """What stands for the blocks of one placing job."""

    is_there = True

    def unpersist(self):
        self.is_there = False


def test_what_keeps_executors_is_let_go_when_all_its_slots_are_elsewhere():
    pins, made = Pins(), [Pin() for _ in range(4)]
    pins.put([0, 1], made[0])
    pins.put([1], made[1])
    pins.put([1], made[2])
    assert [pin.is_there for pin in made[:3]] == [True, False, True]

    pins.put([0], made[3])
    assert [pin.is_there for pin in made] == [False, False, True, True]

    pins.remove()
    assert not any(pin.is_there for pin in made)
