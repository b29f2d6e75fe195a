"""Real threads race through the engine at the shortest switch interval: every message is told its true outcome."""

import pytest

from tests.interleaving.race import race

ROOTS = 6000


@pytest.mark.slow
def test_every_message_is_told_its_true_outcome_while_threads_race():
    assert race(ROOTS, switch_interval=1e-6) == []
