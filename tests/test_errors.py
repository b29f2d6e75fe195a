import copy
import inspect
import pickle

import pytest

from pystorm_spark import errors
from pystorm_spark.errors import (
    FailedException,
    ReportedFailedException,
    StormError,
    UnknownFieldError,
    UnknownIdError,
    did_you_mean,
    in_words,
    shown,
)

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__]


class TestTree:
    @pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
    def test_every_error_is_a_storm_error(self, cls):
        assert issubclass(cls, StormError)

    @pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
    def test_every_error_stands_in_the_drawing(self, cls):
        assert f" {cls.__name__} " in errors.__doc__.replace("\n", " ")

    def test_the_promised_ones_are_there(self):
        assert {cls.__name__ for cls in CLASSES} == {
            "AlreadyAliveError",
            "CheckpointError",
            "EmitError",
            "FailedException",
            "InvalidConfigError",
            "InvalidTopologyError",
            "NotAliveError",
            "ReportedFailedException",
            "SerializationError",
            "SlotLostError",
            "StormError",
            "UnknownFieldError",
            "UnknownIdError",
        }

    def test_a_reported_failure_is_a_failure(self):
        assert issubclass(ReportedFailedException, FailedException)

    @pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
    def test_an_error_travels(self, cls):
        error = pickle.loads(pickle.dumps(cls("what was wrong")))
        assert (type(error), str(error)) == (cls, "what was wrong")
        assert str(copy.copy(error)) == "what was wrong"


@pytest.mark.parametrize("cls", [UnknownFieldError, UnknownIdError])
class TestUnknown:
    def test_it_is_a_key_error(self, cls):
        assert issubclass(cls, KeyError)

    def test_its_message_is_shown_without_quotes(self, cls):
        assert str(cls("field 'a' does not exist")) == "field 'a' does not exist"


class TestDidYouMean:
    def test_the_nearest_name_is_suggested(self):
        assert did_you_mean("wrod", ["word", "count"]) == "did you mean 'word'? known: count, word"

    def test_nothing_is_suggested_where_nothing_is_near(self):
        assert did_you_mean("x", ["word", "count"]) == "known: count, word"

    def test_where_there_is_nothing_it_says_so(self):
        assert did_you_mean("word", []) == "there is none"

    @pytest.mark.parametrize("name", [None, 7, ("word",), b"word"])
    def test_the_wrong_name_may_be_anything(self, name):
        assert did_you_mean(name, ["count"]).endswith("known: count")

    def test_twenty_names_are_shown_whole(self):
        assert "…" not in did_you_mean("?", [f"n{i}" for i in range(20)])

    def test_of_more_the_first_twenty_are_shown(self):
        shown = did_you_mean("?", [f"n{i:02}" for i in range(21)])
        assert shown.endswith("n18, n19, …")

    def test_the_nearest_is_found_among_those_that_are_not_shown(self):
        assert "did you mean 'zebra'?" in did_you_mean("zebrra", [*(f"n{i:02}" for i in range(30)), "zebra"])


class Unshowable:
    def __repr__(self):
        raise SystemExit("no repr")


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("no str")


class TestShown:
    def test_a_value_is_shown_as_python_does(self):
        assert shown(["a", 1]) == "['a', 1]"

    def test_a_value_that_cannot_be_shown_is_named(self):
        assert shown(Unshowable()) == "<Unshowable whose repr raises SystemExit>"


class TestInWords:
    def test_an_exception_has_its_type_and_its_text(self):
        assert in_words(ValueError("too much")) == "ValueError: too much"

    def test_an_exception_without_a_text_is_named(self):
        assert in_words(UnspeakableError()) == "UnspeakableError: <UnspeakableError whose str raises ValueError>"
