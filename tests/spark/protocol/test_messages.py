"""Messages on their way through msgpack, and what is no message."""

from dataclasses import MISSING, fields

import msgpack
import pytest

from pystorm_spark.spark.driver.control import Control
from pystorm_spark.spark.driver.engine import Limits
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.reception import Reception
from pystorm_spark.spark.protocol import messages
from pystorm_spark.spark.protocol.messages import (
    DRIVER_TO_SLOT,
    SLOT_TO_DRIVER,
    TO_DRIVER_FIRST,
    Answer,
    Asking,
    Direction,
    Mark,
    Message,
    MessageError,
    Standing,
)
from pystorm_spark.spark.protocol.wire import pack

DIRECTIONS = [each for each in vars(messages).values() if isinstance(each, Direction)]
ABSTRACT = {Message, Asking, Answer, Standing}


def example(message_class):
    return message_class(**{field.name: index for index, field in enumerate(fields(message_class))})


def concrete():
    found = [each for each in vars(messages).values() if isinstance(each, type) and issubclass(each, Message)]
    return [each for each in found if each not in ABSTRACT]


@pytest.mark.parametrize("message_class", concrete(), ids=lambda each: each.kind)
def test_a_message_comes_as_it_was_sent(message_class):
    (direction,) = [each for each in DIRECTIONS if message_class in each.classes]  # each kind travels one way
    message = example(message_class)
    assert direction.read(msgpack.unpackb(pack(message.to_plain()))) == message


def test_a_kind_is_the_name_of_its_class_once():
    kinds = [each.kind for each in concrete()]
    assert len(set(kinds)) == len(kinds)
    assert messages.PoisonKeys.kind == "poison_keys"


def test_fields_have_no_defaults_but_the_number_of_a_question():
    defaults = {(each, field.name) for each in concrete() for field in fields(each) if field.default is not MISSING}
    assert {name for _, name in defaults} == {"asked"}
    assert all(issubclass(each, Asking) for each, _ in defaults)


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        (None, "must be a map with a text as its 'kind', not NoneType"),
        ([1, 2], "must be a map"),
        ({"asked": 3}, "must be a map"),
        ({"kind": 17}, "must be a map"),
        ({"kind": "comit", "txid": 1}, r"unknown kind 'comit'; known are \['activate'"),
        ({"kind": "done", "asked": 1}, "unknown kind 'done'"),
        ({"kind": "mark", "txid": 1}, r"\['asked'\] are missing, \[\] are surplus"),
        ({"kind": "mark", "txid": 1, "asked": 2, "more": 3, 4: 5}, r"\[\] are missing, \['4', 'more'\] are surplus"),
    ],
)
def test_what_is_no_message_of_its_direction_is_refused_with_what_is_wrong(plain, complaint):
    with pytest.raises(MessageError, match=complaint):
        DRIVER_TO_SLOT.read(plain)


def test_reading_leaves_what_was_received_as_it_is():
    plain = Mark(1, asked=2).to_plain()
    DRIVER_TO_SLOT.read(plain)
    assert plain == {"kind": "mark", "txid": 1, "asked": 2}


def test_every_first_message_of_a_connection_has_one_handler():
    assert Control.FIRST_HANDLERS.keys() == TO_DRIVER_FIRST.classes


def test_every_message_of_a_slot_has_one_handler():
    driver = Driver(1, None, b"token", Limits(max_restarts=0, silence_secs=1.0))
    assert Reception(driver, None, None).handled() == SLOT_TO_DRIVER.classes
