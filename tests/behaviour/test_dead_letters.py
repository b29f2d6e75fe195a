"""Dead letters that components write themselves."""

import json
import threading

import pytest

from pystorm_spark import BasicBolt, LocalCluster, StormError
from tests.behaviour.engine import advance, chain, component, run
from tests.behaviour.probes import Does, Starts, acks, note, noted, numbers


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint"


@pytest.fixture
def kept(cluster, checkpoint):
    """Another cluster of the same kind, with a named checkpoint."""
    if isinstance(cluster, LocalCluster):
        made = LocalCluster(simulated_time=True, checkpoint=checkpoint)
    else:
        made = type(cluster)(cluster.spark, checkpoint)
    with made:
        yield made


def letters(checkpoint, component):
    folder = checkpoint / "topology" / "dead-letters" / component
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


def test_a_letter_is_on_the_disk_when_the_call_returns(kept, checkpoint):
    def writes(bolt, tup):
        bolt.collector.dead_letter({"source": {"offset": tup[0]}, "error": "ValueError: bad", "task": None})
        note("files", sum(1 for _ in (checkpoint / "topology" / "dead-letters" / "a").glob("*.jsonl")))
        acks(bolt, tup)

    run(kept, chain(numbers(2), Does(writes)))
    advance(kept, 0.5)

    found = letters(checkpoint, "a")
    assert [letter["source"] for letter in found] == [{"offset": 0}, {"offset": 1}]
    assert {(letter["kind"], letter["topology"], letter["error"]) for letter in found} == {
        ("record", "topology", "ValueError: bad")
    }
    assert len({letter["id"] for letter in found}) == 2
    assert set(noted("files")) == {1}


def test_spouts_and_basic_bolts_write_letters_too(kept, checkpoint):
    class Basic(BasicBolt):
        def execute(self, tup, collector):
            collector.dead_letter({"value": tup[0], "kind": "tuple"})

    def writes(spout):
        spout.collector.dead_letter({"value": "from a spout"})
        spout.collector.emit([1], message_id=1)

    run(kept, chain(Starts(writes), Basic()))
    advance(kept, 0.5)

    assert [letter["value"] for letter in letters(checkpoint, "spout")] == ["from a spout"]
    assert [(letter["value"], letter["kind"]) for letter in letters(checkpoint, "a")] == [(1, "tuple")]
    assert noted("acked") == [1]


def test_values_that_json_lacks_are_kept_as_text(kept, checkpoint):
    def writes(bolt, tup):
        bolt.collector.dead_letter({"value": {1, 2}, "key": b"k", "nested": [{"number": float("nan")}]})
        acks(bolt, tup)

    run(kept, chain(numbers(1), Does(writes)))
    advance(kept, 0.5)

    (letter,) = letters(checkpoint, "a")
    assert letter["value"] == {"repr": "{1, 2}"}
    assert letter["key"] == {"repr": "b'k'"}
    assert letter["nested"] == [{"number": {"repr": "nan"}}]


def test_threads_write_letters(kept, checkpoint):
    def writes(bolt, tup):
        thread = threading.Thread(target=lambda: bolt.collector.dead_letter({"value": tup[0]}))
        thread.start()
        thread.join()
        acks(bolt, tup)

    run(kept, chain(numbers(3), Does(writes)))
    advance(kept, 0.5)

    assert sorted(letter["value"] for letter in letters(checkpoint, "a")) == [0, 1, 2]


def test_without_a_named_checkpoint_the_log_has_the_letter(cluster, caplog):
    def writes(bolt, tup):
        bolt.collector.dead_letter({"source": {"offset": 7}})
        acks(bolt, tup)

    run(cluster, chain(numbers(1), Does(writes)))
    advance(cluster, 0.5)

    assert noted("acked") == [0]
    assert '"source": {"offset": 7}' in caplog.text


def test_what_is_no_letter_is_refused(cluster):
    def writes(bolt, tup):
        try:
            bolt.collector.dead_letter("gone")
        except StormError as exc:
            note("told", str(exc))
        acks(bolt, tup)

    run(cluster, chain(numbers(1), Does(writes)))

    assert noted("told") == ["dead_letter takes a mapping, got 'gone'"]
    assert component(cluster, "a").errors == []
