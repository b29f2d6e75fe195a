"""What is sent to a slot that does not read: nobody waits for it, and it is not kept for ever."""

import socket
import threading

import pytest

from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.protocol import outgoing
from pystorm_spark.spark.protocol.messages import Print
from pystorm_spark.spark.protocol.outgoing import Outgoing, OverfullError
from pystorm_spark.spark.protocol.wire import Connection, WireError
from tests.spark.components import wait_until

MUCH = {"kind": "much", "data": b"x" * (4 << 20)}  # more than a socket holds


@pytest.fixture
def ends():
    """Our end of a connection, and the other one, which reads when it is told to."""
    one, other = socket.socketpair()
    ours, theirs = Outgoing(Connection(one), "telling"), Connection(other)
    yield ours, theirs
    ours.close()
    ours.join(10)
    theirs.close()


def is_telling():
    return any(thread.name == "telling" for thread in threading.enumerate())


def test_messages_wait_for_the_other_side_in_their_order(ends):
    ours, theirs = ends
    told = [MUCH, *({"kind": "one", "number": number} for number in range(100)), MUCH]

    for message in told:
        ours.send(message)

    assert [theirs.receive() for _ in told] == told


def test_of_leases_that_wait_only_the_newest_is_sent(ends):
    ours, theirs = ends
    ours.send({"kind": "first"})
    ours.send(MUCH)
    for number in range(1000):
        ours.send({"kind": "lease", "number": number})
    ours.send({"kind": "last"})

    heard = [theirs.receive(), theirs.receive(), theirs.receive()]
    while heard[-1]["kind"] != "last":
        heard.append(theirs.receive())

    assert [message["kind"] for message in heard] == ["first", "much", "lease", "last"]
    assert heard[2]["number"] == 999


def test_a_lease_never_overtakes_what_was_said_before_it(ends):
    ours, theirs = ends
    for _ in range(100):
        ours.send({"kind": "assignment"})
        ours.send({"kind": "lease"})
        assert [theirs.receive()["kind"], theirs.receive()["kind"]] == ["assignment", "lease"]


def test_no_more_is_kept_than_the_limit(ends, monkeypatch):
    monkeypatch.setattr(outgoing, "MOST_UNSENT_BYTES", 8 << 20)
    ours, _ = ends

    with pytest.raises(OverfullError, match="has not read"):
        for _ in range(4):  # one is being sent, two may wait
            ours.send(MUCH)


def test_a_slot_that_reads_too_little_is_let_go_of(ends, monkeypatch):
    monkeypatch.setattr(outgoing, "MOST_UNSENT_BYTES", 1 << 20)
    ours, theirs = ends
    link = SlotLink(0, 0, ours, is_near=False)

    for _ in range(3):
        link.tell(Print(20, "x" * (4 << 20), "bolt:3"))

    assert "has not read" in link.reason
    with pytest.raises(WireError):
        theirs.receive()


def test_the_thread_ends_with_its_connection_though_it_is_sending(ends):
    ours, _ = ends
    ours.send(MUCH)

    ours.close()

    wait_until(lambda: not is_telling())
    with pytest.raises(WireError, match="ended"):
        ours.send({"kind": "lease"})


def test_what_the_other_side_has_said_before_it_ended_can_be_read(ends):
    ours, theirs = ends
    theirs.send({"kind": "crashed"})
    theirs.close()
    ours.send(MUCH)
    wait_until(lambda: not is_telling())

    assert ours.receive() == {"kind": "crashed"}
    with pytest.raises(WireError):
        ours.receive()
