"""What a slot sends to the driver's log, without a driver."""

import logging

from pystorm_spark.spark.output import LogsToDriver


class Process:
    """Keeps what it is to tell the driver."""

    def __init__(self):
        self.told = []

    def tell(self, kind, **content):
        self.told.append((kind, content))


class Unshowable:
    def __repr__(self):
        raise ValueError("no repr")


def record(message, *args):
    return logging.LogRecord("users.bolt", logging.INFO, __file__, 1, message, args, None)


def test_a_record_is_told_with_its_level_and_its_logger():
    process = Process()
    LogsToDriver(process).emit(record("%d tuples", 3))
    assert process.told == [("log", {"level": logging.INFO, "text": "users.bolt: 3 tuples"})]


def test_a_value_that_cannot_be_shown_does_not_raise_where_it_is_logged(capsys):
    process = Process()
    LogsToDriver(process).emit(record("%r", Unshowable()))
    assert process.told == []
    assert "no repr" in capsys.readouterr().err
