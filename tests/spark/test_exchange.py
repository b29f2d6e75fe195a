"""What exchanges leave behind, on the disks of Spark and in its Python workers: nothing for long."""

import threading
from pathlib import Path

import pytest

from pystorm_spark.spark import exchange
from pystorm_spark.spark.exchange import ask
from pystorm_spark.spark.wire import Door, listen
from tests.spark.components import steady, wait_until


def shuffle_files(spark):
    """The files of all shuffles that there are now."""
    return list(Path(spark.sparkContext.getConf().get("spark.local.dir")).rglob("shuffle_*"))


@pytest.mark.spark
def test_shuffle_files_do_not_outlive_the_exchanges_that_wrote_them(cluster, spark, journal):
    before = len(shuffle_files(spark))
    handle = cluster.submit_topology("steady", {"topology.workers": 2}, steady(300, journal))
    most = 0
    while len(journal.noted("acked")) < 300:
        most = max(most, len(shuffle_files(spark)) - before)

    wait_until(lambda: len(shuffle_files(spark)) <= before, secs=10)
    assert handle.run.jobs >= 2
    assert most > 0


class Answering:
    """A slot that answers everything, until it ends."""

    def __init__(self, folder, host, name):
        server, self.address = listen(folder, host, name)
        self.connections = []
        self.door = Door(server, self.address, TOKEN, self.answer, print)
        self.thread = threading.Thread(target=self.door.run)
        self.thread.start()

    def answer(self, connection):
        self.connections.append(connection)
        while True:
            connection.receive()
            connection.send(["ok", 1, []])

    def end(self):
        self.door.close()
        for connection in self.connections:
            connection.close()
        self.thread.join(60)
        self.door.join(60)


TOKEN = b"token"


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_connections_to_slots_that_have_ended_are_closed_when_others_come(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(exchange, "_connections", {})
    folder, host = (tmp_path, "") if kind == "unix" else (None, "127.0.0.1")
    stays = Answering(folder, host, "stays")
    for number in range(100):
        slot = Answering(folder, host, f"{number}")
        for address in (stays.address, slot.address):
            assert ask(address, TOKEN, []) == ("ok", [])
        slot.end()
        assert len(exchange._connections) <= 3

    assert len(stays.connections) == 1
    stays.end()
    for connection in exchange._connections.values():
        connection.close()
