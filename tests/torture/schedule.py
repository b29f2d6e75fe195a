"""The schedule of faults: a sequence that depends on the seed only, not on the clock or the processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

LOCAL, CLUSTER = "local[2]", "local-cluster[2,1,1024]"
PHASE_SECS = 150.0, 300.0  # between two changes of the master
FAULT_PAUSE_SECS = 5.0, 15.0
BURST_CHANCE = 0.12
BURST_FAULTS = 1, 2  # beside the first one
BURST_PAUSE_SECS = 0.1, 1.5

WEIGHTS = {
    "kill_slot": 5,
    "kill_worker": 3,
    "kill_workers": 1,
    "kill_executor": 4,
    "kill_driver": 2,
    "kill_jvm": 1,
    "stop_slot": 3,
    "stop_worker": 2,
    "full_pipe": 2,
    "full_disk": 2,
    "rebalance": 2,
    "deactivate": 2,
    "resubmit": 2,
}
LASTING = {  # {kind: seconds until it is undone}
    "stop_slot": (0.5, 40.0),  # the longest ones are taken for dead
    "stop_worker": (0.5, 8.0),
    "full_pipe": (5.0, 20.0),
    "full_disk": (2.0, 8.0),
    "deactivate": (0.5, 5.0),
}


@dataclass(frozen=True)
class Phase:
    """A stretch of time on one master; the driver is killed at its end."""

    number: int
    master: str
    secs: float


@dataclass(frozen=True)
class Fault:
    """One fault: `pause` seconds after the last one; `draw` in [0, 1) chooses the victim."""

    pause: float
    kind: str
    draw: float
    secs: float


def phases(seed: int) -> Iterator[Phase]:
    """The phases of a run, without an end: both masters in turn."""
    random = Random(f"{seed} phases")
    masters = [LOCAL, CLUSTER]
    random.shuffle(masters)
    number = 0
    while True:
        yield Phase(number, masters[number % 2], random.uniform(*PHASE_SECS))
        number += 1


def faults(seed: int, phase: Phase, pace: float = 1.0) -> Iterator[Fault]:
    """The faults of a phase, without an end; `pace` stretches the pauses between them."""
    random = Random(f"{seed} faults {phase.number}")
    while True:
        yield _draw(random, phase.master, random.uniform(*FAULT_PAUSE_SECS) * pace)
        if random.random() < BURST_CHANCE:
            for _ in range(random.randint(*BURST_FAULTS)):
                yield _draw(random, phase.master, random.uniform(*BURST_PAUSE_SECS))


def _draw(random: Random, master: str, pause: float) -> Fault:
    kinds = [kind for kind in WEIGHTS if kind != "kill_executor" or master == CLUSTER]
    (kind,) = random.choices(kinds, [WEIGHTS[kind] for kind in kinds])
    draw, share = random.random(), random.random()
    least, most = LASTING.get(kind, (0.0, 0.0))
    return Fault(round(pause, 3), kind, draw, round(least + (most - least) * share**2, 3))
