"""The sequence of faults: the same for one seed, with all kinds, at the given pace."""

from itertools import islice

import pytest

from tests.torture.nemesis import Nemesis
from tests.torture.schedule import CLUSTER, FAULT_PAUSE_SECS, LASTING, LOCAL, WEIGHTS, Phase, faults, phases

PHASE = Phase(0, CLUSTER, 100.0)


def drawn(seed, phase=PHASE, count=300, **options):
    return list(islice(faults(seed, phase, **options), count))


def test_a_seed_has_one_sequence():
    assert drawn(7) == drawn(7)
    assert list(islice(phases(7), 9)) == list(islice(phases(7), 9))


def test_another_seed_and_another_phase_have_other_sequences():
    assert drawn(7) != drawn(8)
    assert drawn(7) != drawn(7, Phase(2, CLUSTER, 100.0))


def test_the_masters_take_turns():
    masters = [phase.master for phase in islice(phases(7), 6)]
    assert {*masters[::2]} | {*masters[1::2]} == {LOCAL, CLUSTER}
    assert len({*masters[::2]}) == 1


def test_all_kinds_of_faults_come_and_executors_are_killed_only_if_there_are_any():
    assert {fault.kind for fault in drawn(7)} == {*WEIGHTS}
    assert {fault.kind for fault in drawn(7, Phase(0, LOCAL, 100.0))} == {*WEIGHTS} - {"kill_executor"}


def test_some_faults_come_in_bursts_and_all_others_leave_time():
    pauses = [fault.pause for fault in drawn(7)]
    assert any(pause < 2 for pause in pauses)
    assert sum(FAULT_PAUSE_SECS[0] <= pause <= FAULT_PAUSE_SECS[1] for pause in pauses) > 0.7 * len(pauses)


def test_the_pace_stretches_pauses_and_changes_nothing_else():
    slow = drawn(7, pace=2.0)
    assert [(fault.kind, fault.draw, fault.secs) for fault in slow] == [(f.kind, f.draw, f.secs) for f in drawn(7)]
    assert sum(fault.pause for fault in slow) > 1.5 * sum(fault.pause for fault in drawn(7))


def test_a_fault_lasts_at_most_as_long_as_its_kind():
    for fault in drawn(7):
        least, most = LASTING.get(fault.kind, (0.0, 0.0))
        assert least <= fault.secs <= most
        assert 0 <= fault.draw < 1


@pytest.mark.parametrize("kind", WEIGHTS)
def test_the_nemesis_knows_every_kind(kind):
    assert callable(getattr(Nemesis, f"_{kind}"))
