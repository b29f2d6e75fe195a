"""The checker finds each kind of fault in the data of an otherwise correct run."""

import pytest

from tests.torture import exact, plain
from tests.torture.checker import Findings, Told, check_messages, check_results, check_state, rows_of
from tests.torture.journal import Journal

WRITTEN = 2 * exact.KEYS + 5
DUE = 6
NOTHING = {"lost": 0, "doubled": 0, "counted_twice": 0, "not_replayed": 0}


def results():
    """(batch, number, key, count) of each row, as a run without a fault writes them."""
    return [(n // 10, n, n % exact.KEYS, n // exact.KEYS + 1) for n in range(WRITTEN)]


def state():
    rows = {key: rows_of(key, WRITTEN) for key in range(exact.KEYS)}
    return {key: {"count": count, "seen": [[0, count - 1]], "again": []} for key, count in rows.items()}


def emission(message, chance=7):
    return message << plain.CHANCE_BITS | chance


def words(*emissions):
    return [plain.word_of(e, index) for e in emissions for index in range(len(plain.words_of(plain.message_of(e))))]


def told(**changes):
    """Each message is emitted, counted and acked once, except the first one, which was refused and emitted again."""
    emissions, first = [emission(message) for message in range(DUE)], emission(0, 8)
    noted = {
        "emitted": [first, *emissions],
        "acked": emissions,
        "failed": [first],
        "refused": [first],
        "counted": words(*emissions),
        "audited": words(*emissions, first),
    }
    return Told(**{**noted, **changes})


def test_a_correct_run_has_no_findings():
    found = check_results(WRITTEN, results()) + check_state(WRITTEN, state()) + check_messages(DUE, told())
    assert found == Findings()
    assert found.counts() == NOTHING


def test_an_empty_run_has_no_findings():
    assert check_results(0, []) + check_state(0, {}) + check_messages(0, Told()) == Findings()


def test_a_row_that_is_in_no_batch_is_lost():
    found = check_results(WRITTEN, [row for row in results() if row[1] != 17])
    assert found.lost == {"rows that are in no batch": [17]}
    assert found.counts() == {**NOTHING, "lost": 1}


def test_a_row_in_two_batches_is_doubled():
    found = check_results(WRITTEN, [*results(), (99, 17, 17, 3)])
    assert found.doubled == {"(row, its batches)": [(17, [1, 99])]}


def test_a_row_that_is_twice_in_a_batch_is_doubled():
    assert check_results(WRITTEN, [*results(), (1, 17, 17, 1)]).counts()["doubled"] == 1


def test_a_row_that_was_never_written_is_doubled():
    row = (9, WRITTEN, WRITTEN % exact.KEYS, 9)
    assert check_results(WRITTEN, [*results(), row]).counts() == {**NOTHING, "doubled": 1}


def test_a_count_that_the_sink_has_seen_twice_is_counted_twice():
    wrong = [(*row[:3], 1) if row[1] == exact.KEYS + 3 else row for row in results()]
    assert list(check_results(WRITTEN, wrong).counted_twice.values()) == [[(3, [1])]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 4, "seen": [[0, 2]], "again": [3]},  # one row twice, as the bolt has seen it
        {"count": 4, "seen": [[0, 2]], "again": []},
        {"count": 4, "seen": [[0, 3]], "again": []},
    ],
)
def test_a_state_that_differs_is_counted_twice(wrong):
    found = check_state(WRITTEN, {**state(), 3: wrong})
    assert found.counted_twice == {"(key, its rows, its state)": [(3, 3, wrong)]}
    assert not found.lost


def test_a_row_that_is_missing_in_the_state_is_lost():
    found = check_state(WRITTEN, {**state(), 3: {"count": 2, "seen": [[0, 0], [2, 2]], "again": []}})
    assert found.lost == {"rows that are not in the state": [exact.KEYS + 3]}
    assert found.counts() == {**NOTHING, "lost": 1, "counted_twice": 1}


def test_a_key_without_a_state_has_lost_its_rows():
    found = check_state(WRITTEN, {key: value for key, value in state().items() if key != 3})
    assert found.counts() == {**NOTHING, "lost": 3, "counted_twice": 1}


def test_a_key_that_was_never_written_is_found():
    made_up = {"count": 1, "seen": [[0, 0]], "again": []}
    assert check_state(WRITTEN, {**state(), 1000: made_up}).counts()["counted_twice"] == 1


def only(found):
    """Return the only finding, and its count."""
    assert found.counts() == {**NOTHING, "not_replayed": sum(map(len, found.not_replayed.values()))}
    ((what, those),) = found.not_replayed.items()
    return what, those


def test_a_message_that_failed_and_was_not_emitted_again_is_found():
    lost = emission(2)
    acked = [emission(message) for message in range(DUE) if message != 2]
    assert only(check_messages(DUE, told(acked=acked, failed=[emission(0, 8), lost]))) == (
        "messages that were never acked",
        [(2, f"emitted: {lost} failed")],
    )


def test_a_message_that_was_never_emitted_is_found():
    assert only(check_messages(DUE + 1, told())) == ("messages that were never acked", [(DUE, "never emitted")])


@pytest.mark.parametrize("topic", ["counted", "audited"])
def test_an_acked_message_with_a_word_that_was_not_counted_is_found(topic):
    without = [word for word in words(*map(emission, range(DUE))) if word != plain.word_of(emission(3), 1)]
    assert only(check_messages(DUE, told(**{topic: without}))) == ("acked, and a word was not counted", [emission(3)])


def test_words_of_another_emission_do_not_count():
    counted = words(emission(3, 9), *(emission(message) for message in range(DUE) if message != 3))
    assert only(check_messages(DUE, told(counted=counted)))[1] == [emission(3)]


def test_an_acked_emission_that_a_bolt_has_failed_is_found():
    assert only(check_messages(DUE, told(refused=[emission(3)])))[0] == "acked, though a bolt has failed it"


def test_an_emission_with_two_outcomes_is_found():
    assert only(check_messages(DUE, told(failed=[emission(3)])))[0] == "acked, and failed as well"
    twice = [*map(emission, range(DUE)), emission(3)]
    assert only(check_messages(DUE, told(acked=twice))) == ("acked more than once", [emission(3)])
    assert only(check_messages(DUE, told(failed=[emission(0, 8)] * 2)))[0] == "failed more than once"


def test_the_table_of_the_sink_replaces_a_batch_and_shows_what_was_not_replaced(tmp_path):
    class Frame(list):
        collect = list.copy

    table = exact.Results(tmp_path / "results.db")
    table.make()
    by_batch = {batch: Frame(row[1:] for row in results() if row[0] == batch) for batch, *_ in results()}
    for batch, rows in by_batch.items():
        table(rows, batch)
        table(rows, batch)
    assert check_results(WRITTEN, table.rows()) == Findings()
    assert table.size() == (WRITTEN, WRITTEN - 1)

    table(by_batch[1], 77)
    assert check_results(WRITTEN, table.rows()).counts()["doubled"] == 10


def test_the_checker_reads_the_records_of_a_journal(tmp_path):
    journal = Journal(tmp_path)
    for topic in Told.__dataclass_fields__:
        for number in getattr(told(), topic):
            journal.note(topic, number)
    read = Told(**{topic: list(journal.noted(topic)) for topic in Told.__dataclass_fields__})
    assert read == told()
