"""One `cluster` fixture for every behaviour test: whatever engine it gives must pass them all."""

import pytest

from tests.behaviour import probes
from tests.behaviour.engine import make_cluster


@pytest.fixture
def cluster():
    with make_cluster() as made:
        yield made


@pytest.fixture(autouse=True)
def fresh_journal():
    probes.forget_all()
