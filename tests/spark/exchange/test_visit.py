"""What Spark's Python workers keep of their visits to slots: no connection to a slot that has ended."""

import threading

import pytest

from pystorm_spark.spark.exchange import visit
from pystorm_spark.spark.exchange.visit import ask
from pystorm_spark.spark.protocol.messages import Fetch, Parcels
from pystorm_spark.spark.protocol.wire import Door, listen

TOKEN = b"token"


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
            connection.send(Parcels("ok", []).to_plain())

    def end(self):
        self.door.close()
        for connection in self.connections:
            connection.close()
        self.thread.join(60)
        self.door.join(60)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_connections_to_slots_that_have_ended_are_closed_when_others_come(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(visit, "_connections", {})
    folder, host = (tmp_path, "") if kind == "unix" else (None, "127.0.0.1")
    stays = Answering(folder, host, "stays")
    for number in range(100):
        slot = Answering(folder, host, f"{number}")
        for address in (stays.address, slot.address):
            assert ask(address, TOKEN, Fetch(1, 1, 0)) == Parcels("ok", [])
        slot.end()
        assert len(visit._connections) <= 3

    assert len(stays.connections) == 1
    stays.end()
    for connection in visit._connections.values():
        connection.close()
