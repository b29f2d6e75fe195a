"""The message ids of commits: a restart recognizes them, and ids that do not equal their copies are refused."""

from datetime import date

import pytest

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable.committed_ids import CommittedIds

NAN = float("nan")


def kept(message_id):
    """Return the ids that the next run restores if `message_id` was part of the last commit."""
    codec = ValueCodec()
    ids = CommittedIds("spout", codec)
    ids.restore([CommittedIds("spout", codec).section([message_id])])
    return ids


@pytest.mark.parametrize(
    ("committed", "emitted"),
    [
        ("a", "a"),
        (0, 0),
        ((1, "a"), (1, "a")),
        ([1, [2]], [1.0, [2]]),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({3, 1, "abc", "def"}, {"def", 1, "abc", 3}),
        ((1, {"a": {2, 3}}), (1, {"a": {3, 2}})),
        (bytearray(b"a"), bytearray(b"a")),
        (date(2024, 2, 29), date(2024, 2, 29)),
    ],
    ids=lambda id_: type(id_).__name__,
)
def test_an_equal_id_is_recognized_after_a_restart(committed, emitted):
    ids = kept(committed)
    assert ids.key(emitted) in ids


@pytest.mark.parametrize(
    ("committed", "other"), [([1], (1,)), ({"a": 1}, {"a": 2}), ({1}, [1]), ({"a": 1}, [("a", 1)])], ids=str
)
def test_different_ids_are_not_confused(committed, other):
    ids = kept(committed)
    assert ids.key(other) not in ids


@pytest.mark.parametrize("message_id", [NAN, ("p", NAN), [NAN], {"a": NAN}], ids=str)
def test_an_id_that_differs_from_its_copy_is_refused(message_id):
    with pytest.raises(StormError, match=r"those of 'spout' do not: .*nan.* is not equal to a copy of itself"):
        kept(message_id)
