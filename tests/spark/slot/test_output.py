"""What a slot sends to the driver's log, without a driver."""

import gc
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pystorm_spark.spark.protocol.messages import Beat, Broken, Frames, Log, Outlived
from pystorm_spark.spark.protocol.wire import Connection
from pystorm_spark.spark.slot.output import LogsToDriver, PrintsToDriver, Words
from pystorm_spark.spark.slot.starters import note_starters, starter


class Process:
    """Keeps what it is to tell the driver."""

    def __init__(self):
        self.told = []

    def tell(self, message):
        self.told.append(message)


class Unshowable:
    def __repr__(self):
        raise ValueError("no repr")


def record(message, *args):
    return logging.LogRecord("users.bolt", logging.INFO, __file__, 1, message, args, None)


def test_a_record_is_told_with_its_level_and_its_logger():
    process = Process()
    LogsToDriver(process).emit(record("%d tuples", 3))
    assert process.told == [Log(logging.INFO, "users.bolt: 3 tuples")]


def test_a_value_that_cannot_be_shown_does_not_raise_where_it_is_logged(capsys):
    process = Process()
    LogsToDriver(process).emit(record("%r", Unshowable()))
    assert process.told == []
    assert "no repr" in capsys.readouterr().err


class Place:
    """Keeps what is told, and where it was printed: where the test says."""

    def __init__(self):
        self.lines = []
        self.here = "slot 0"

    def where(self):
        return starter() or self.here

    def tell(self, line):
        self.lines.append(f"{line.where}: {line.text}")


def test_a_line_goes_with_where_it_was_printed_whoever_prints_meanwhile():
    place = Place()
    out = PrintsToDriver(place, logging.INFO)

    place.here = "a:1"
    out.write("of ")
    place.here = "b:2"
    print("of b", file=out)
    place.here = "a:1"
    print("a", file=out)

    assert place.lines == ["b:2: of b", "a:1: of a"]


def test_threads_that_print_at_once_have_lines_of_their_own():
    place = Place()
    out = PrintsToDriver(place, logging.INFO)
    out.write("begun ")
    thread = threading.Thread(target=print, args=("whole",), kwargs={"file": out})
    thread.start()
    thread.join()
    out.write("ended\n")

    assert place.lines == ["slot 0: whole", "slot 0: begun ended"]


@pytest.fixture
def place(monkeypatch):
    """A place where it is noted who starts threads."""
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    made = Place()
    note_starters(made.where)
    return made


def test_a_thread_prints_for_the_component_that_has_started_it_and_so_do_threads_of_its_own(place):
    out = PrintsToDriver(place, logging.INFO)

    def print_in_another():
        inner = threading.Timer(0, print, args=("timer",), kwargs={"file": out})
        inner.start()
        inner.join()

    place.here = "a:1"
    outer = threading.Thread(target=print_in_another)
    outer.start()
    place.here = "b:2"
    outer.join()

    assert place.lines == ["a:1: timer"]


def test_a_thread_of_a_pool_prints_for_whoever_has_asked_it(place):
    out = PrintsToDriver(place, logging.INFO)
    with ThreadPoolExecutor(1) as pool:
        for here in ("a:1", "b:2"):
            place.here = here
            pool.submit(print, "asked", file=out).result()

    assert place.lines == ["a:1: asked", "b:2: asked"]


class Dying:
    """Says a last word when the garbage collector comes to it."""

    def __init__(self, words, word):
        self.words, self.word, self.itself = words, word, self

    def __del__(self):
        self.words.send(self.word)


class Sent:
    """A connection on which the garbage collector runs in the middle of the first message."""

    def __init__(self):
        self.kinds = []

    def send(self, message):
        if not self.kinds:
            gc.collect()
        self.kinds.append(message["kind"])


def test_what_is_printed_while_a_message_is_being_sent_is_sent_after_it():
    sent = Sent()
    words = Words(sent)
    Dying(words, Broken())
    sending = threading.Thread(target=words.send, args=(Frames(),), daemon=True)

    sending.start()
    sending.join(10)

    assert not sending.is_alive()
    assert sent.kinds == ["frames", "broken"]


def test_a_message_that_cannot_be_sent_keeps_back_no_other():
    one, other = socket.socketpair()
    words, theirs = Words(Connection(one)), Connection(other)
    with pytest.raises(TypeError):
        words.send(Outlived(object(), 1))

    words.send(Beat())

    assert theirs.receive() == {"kind": "beat"}
    for sock in (one, other):
        sock.close()
