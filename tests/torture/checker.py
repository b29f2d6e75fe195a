"""The checker: compares results with the input, and finds what is lost, doubled, counted twice or not replayed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.torture import exact, plain, ranges


@dataclass
class Findings:
    """{finding: what it concerns}, for each of the four guarantees."""

    lost: dict[str, list[Any]] = field(default_factory=dict)
    doubled: dict[str, list[Any]] = field(default_factory=dict)
    counted_twice: dict[str, list[Any]] = field(default_factory=dict)
    not_replayed: dict[str, list[Any]] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        return {promise: sum(map(len, found.values())) for promise, found in vars(self).items()}

    def __add__(self, other: Findings) -> Findings:
        return Findings(**{promise: {**found, **vars(other)[promise]} for promise, found in vars(self).items()})


def check_results(written: int, results: Iterable[tuple[int, int, int, int]]) -> Findings:
    """Compare the sink's table, rows of (batch, number, key, count), with the rows 0 to `written` - 1."""
    batches: defaultdict[int, list[int]] = defaultdict(list)
    counts: defaultdict[int, list[int]] = defaultdict(list)
    for batch, number, key, count in results:
        batches[number].append(batch)
        counts[key].append(count)
    twice = [(number, found) for number, found in batches.items() if len(found) > 1 or number >= written]
    return Findings(
        lost=_some("rows that are in no batch", [number for number in range(written) if number not in batches]),
        doubled=_some("(row, its batches)", twice),
        counted_twice=_some(
            "(key, counts that the sink got more than once)",
            [
                (key, again)
                for key, found in counts.items()
                if (again := [n for n, c in Counter(found).items() if c > 1])
            ],
        ),
    )


def check_state(written: int, state: Mapping[int, Mapping[str, Any]]) -> Findings:
    """Compare the state of the bolt with the rows 0 to `written` - 1."""
    nothing: dict[str, Any] = {"count": 0, "seen": [], "again": []}
    lost, differing = [], []
    for key in {*range(exact.KEYS), *state}:
        found, rows = state.get(key, nothing), rows_of(key, written)
        lost += [seq * exact.KEYS + key for seq in ranges.missing(found["seen"], rows)]
        if found["again"] or found["count"] != rows or found["seen"] != ([[0, rows - 1]] if rows else []):
            differing.append((key, rows, found))
    return Findings(
        lost=_some("rows that are not in the state", lost),
        counted_twice=_some("(key, its rows, its state)", differing),
    )


def rows_of(key: int, written: int) -> int:
    """How many of the rows 0 to `written` - 1 have a key."""
    return len(range(key, written, exact.KEYS)) if 0 <= key < exact.KEYS else 0


@dataclass
class Told:
    """The records of the word count's components: numbers of emissions or of their words."""

    emitted: Collection[int] = ()
    acked: Collection[int] = ()
    failed: Collection[int] = ()
    refused: Collection[int] = ()  # by a bolt
    counted: Collection[int] = ()
    audited: Collection[int] = ()


def check_messages(due: int, told: Told) -> Findings:
    """Compare the outcome of each emission with the messages 0 to `due` - 1."""
    done = {*map(plain.message_of, told.acked)}
    acked, refused, failed = set(told.acked), set(told.refused), set(told.failed)
    words = [set(told.counted), set(told.audited)]
    early = [emission for emission in acked if not all(_words(emission) <= noted for noted in words)]
    return Findings(
        not_replayed={
            **_some("messages that were never acked", _fates([n for n in range(due) if n not in done], told)),
            **_some("acked, and a word was not counted", early),
            **_some("acked, though a bolt has failed it", sorted(acked & refused)),
            **_some("acked, and failed as well", sorted(acked & failed)),
            **_some("acked more than once", [emission for emission, n in Counter(told.acked).items() if n > 1]),
            **_some("failed more than once", [emission for emission, n in Counter(told.failed).items() if n > 1]),
        }
    )


def _words(emission: int) -> set[int]:
    count = len(plain.words_of(plain.message_of(emission)))
    return {plain.word_of(emission, index) for index in range(count)}


def _fates(messages: Collection[int], told: Told) -> list[tuple[int, str]]:
    """The records of messages that were never acked."""
    wanted, failed = set(messages), set(told.failed)
    ways: dict[int, list[str]] = {message: [] for message in messages}
    for emission in told.emitted:
        if plain.message_of(emission) in wanted:
            outcome = "failed" if emission in failed else "without an outcome"
            ways[plain.message_of(emission)].append(f"{emission} {outcome}")
    return [(message, f"emitted: {', '.join(found)}" if found else "never emitted") for message, found in ways.items()]


def _some(what: str, found: list[Any]) -> dict[str, list[Any]]:
    return {what: found} if found else {}
