"""What happens in one simulated run: a small topology, how fast things move, and what goes wrong where."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

# Where something can happen to the process of a slot.
CRASH_POINTS = (
    "starting",  # before it has connected to the driver
    "assigned",  # after the driver has told it what to do
    "opened",  # before the driver knows that it is ready
    "taking in",
    "taken in",
    "handing out",
    "handed out",
    "turning",
    "turned",
    "resetting",
    "reset",
    "activating",
    "activated",
)
# The same, where there is state.
COMMIT_POINTS = (
    "quiescing",  # until nothing is in flight
    "marking",
    "marked",
    "preparing",
    "prepared",
    "writing",  # in a thread of its own
    "written",
    "merging",  # in another thread
    "merged",
    "committing",  # the commit is durable
    "committed",
)
RARE = ("place", "starting", "assigned", "opened", "resetting", "reset", "activating", "activated")
# What can happen there.
CRASHES = (
    "kill",
    "cut",  # its control connection is lost; the process lives on for a while
    "freeze",  # the whole process stands still for a while, then goes on: by then it is a zombie
    "hold",  # user code takes its time; the other threads of the process go on
    "stall",  # the thread that answers takes its time; the others go on
)
# What can happen there to the connections of slots to the driver, where slots beat.
LINE_DEEDS = (
    "deaf",  # the slot does not read what it is told for a while; its other threads go on
    "unheard",  # the driver does not read what this slot says for a while
    "block",  # the same for all slots: the threads that listen to them wait, as for a stdout that nobody reads
    "lag",  # from now on all that this slot and the driver tell each other takes longer
)
# What can happen to a Spark task that visits a slot.
MISHAPS = (
    "repeat",  # its answer is lost, it runs again
    "copy",  # it runs a second time, at the same time or long after the job has ended
    "miss",  # it cannot reach the slot, which lives
    "break",  # the slot answers, but the connection breaks before the answer is there
    "refetch",  # an output of the stage before is lost: the task that made it runs again
    "retry",  # all outputs of all stages before are lost: all run again
    "fail",  # the whole job fails, its tasks go on for a while
    "end",  # the topology is killed by its user, who does not wait for anything
    "finish",  # the same, after a last commit
    "deactivate",  # the topology is deactivated by its user, and activated again
)
# What can happen when a slot is placed.
MISPLACINGS = (
    "double",  # two processes are started for it
    "none",  # no process is started
    "raise",  # a component's `open` raises
)
# What can happen to a file of the checkpoint when it is written.
MISWRITINGS = (
    "full",  # there is no room for it
    "doubt",  # it is written, and an error says that it may not be
)
FAULTS = (
    [(deed, "visit") for deed in MISHAPS],
    [(deed, "place") for deed in MISPLACINGS],
    [(deed, point) for deed in CRASHES for point in CRASH_POINTS],
    [("kill", point) for point in CRASH_POINTS],
)
COMMIT_FAULTS = (
    [(deed, kind) for deed in MISWRITINGS for kind in ("part", "manifest")],
    [(deed, point) for deed in CRASHES for point in COMMIT_POINTS],
    [("kill", point) for point in COMMIT_POINTS],
)
LINE_FAULTS = (
    [(deed, point) for deed in LINE_DEEDS for point in CRASH_POINTS],
    [(deed, point) for deed in (*LINE_DEEDS, "hold", "freeze") for point in ("turned", "handed out")],
)
# What is worst at about the same time, in two slots: a death, and something of the old epoch that is still to come.
PAIRS = (
    (("copy", "visit"), ("kill", "taken in")),
    (("copy", "visit"), ("fail", "visit")),
    (("copy", "visit"), ("copy", "visit")),
    (("stall", "taken in"), ("kill", "turned")),
    (("stall", "taken in"), ("fail", "visit")),
    (("hold", "turned"), ("kill", "handed out")),
    (("hold", "taken in"), ("fail", "visit")),
    (("freeze", "taken in"), ("kill", "taken in")),
    (("cut", "handed out"), ("copy", "visit")),
    (("kill", "handed out"), ("kill", "taken in")),
    (("hold", "assigned"), ("raise", "place")),
    (("hold", "opened"), ("kill", "assigned")),
)
SECS = (0.0, 0.003, 0.05, 0.4, 2.0, 7.0, 40.0, 100.0)


@dataclass(frozen=True)
class Fault:
    """The `nth` time that the slot comes to `point`, `deed` happens; `secs` is how long it lasts, or how late it is."""

    deed: str
    point: str
    slot: int
    nth: int
    secs: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One run; the same scenario always runs the same way."""

    slots: int = 2
    tasks: int = 2  # of each component
    numbers: int = 4  # that the spouts emit, all of them together
    pending: int | None = None  # of one spout, at most
    delay_secs: float = 0.01  # at most, of whatever moves
    near: bool = True  # whether the driver can kill the process of a slot
    seed: int = 0  # of delays and ids
    faults: tuple[Fault, ...] = field(default=())
    guarantee: str | None = None  # of the state, if there is any
    failing: tuple[int, ...] = ()  # numbers that fail once
    holds: bool = False  # a bolt holds tuples until a tick comes
    shares: bool = False  # a number may be given to another spout when its own is gone
    beats: bool = False  # slots beat, the driver keeps their leases, and they are careful when they have died
    late: bool = False  # the components are not opened before the topology is activated, which is late
    flushes: bool = False  # spouts emit also when they are activated and deactivated


def scenario_of(seed: int, guarantee: str | None = None) -> Scenario:
    """A scenario by chance."""
    rng = random.Random(seed)
    slots = rng.choice((1, 2, 2, 3))
    whats = [rng.choice(rng.choice(FAULTS)) for _ in range(rng.randint(0, 4))]
    for pair in rng.sample(PAIRS, rng.randint(0, 2)):
        whats += pair
    if guarantee is not None:
        whats += [rng.choice(rng.choice(COMMIT_FAULTS)) for _ in range(rng.randint(0, 3))]
    rare = (*RARE, *COMMIT_POINTS, "part", "manifest")
    faults = [
        Fault(deed, point, rng.randrange(slots), rng.randint(0, 2 if point in rare else 9), rng.choice(SECS))
        for deed, point in whats
    ]
    return Scenario(
        slots,
        rng.choice((1, 2, 2, 3)),
        rng.randint(1, 8),
        rng.choice((None, 1, 2)),
        rng.choice((0.0, 0.01, 0.2)),
        rng.random() < 0.5,
        seed,
        tuple(faults),
        guarantee,
        tuple(rng.sample(range(8), rng.choice((0, 0, 1, 3)))) if guarantee is not None else (),
    )


def scenario_with_lines(seed: int, guarantee: str | None = None) -> Scenario:
    """The same scenario, but slots beat, and something happens to their connections to the driver."""
    scenario = scenario_of(seed, guarantee)
    rng = random.Random(f"lines {seed}")
    faults = [
        Fault(*rng.choice(rng.choice(LINE_FAULTS)), rng.randrange(scenario.slots), rng.randint(0, 5), rng.choice(SECS))
        for _ in range(rng.randint(1, 3))
    ]
    kept = rng.sample(scenario.faults, rng.randint(0, len(scenario.faults)))  # else many end before it happens
    return replace(scenario, beats=True, faults=(*faults, *kept))


@st.composite
def scenarios(draw, guarantee: str | None = None, beats: bool = False) -> Scenario:
    """The same for Hypothesis, which makes what fails smaller."""
    slots = draw(st.integers(1, 3))
    kinds = (*FAULTS, *(() if guarantee is None else COMMIT_FAULTS), *(LINE_FAULTS if beats else ()))
    fault = st.builds(
        lambda what, slot, nth, secs: Fault(*what, slot, nth, secs),
        st.one_of([st.sampled_from(kind) for kind in kinds]),
        st.integers(0, slots - 1),
        st.integers(0, 8),
        st.sampled_from(SECS),
    )
    return Scenario(
        slots,
        draw(st.integers(1, 3)),
        draw(st.integers(1, 8)),
        draw(st.sampled_from((None, 1, 2))),
        draw(st.sampled_from((0.0, 0.01, 0.2))),
        draw(st.booleans()),
        draw(st.integers(0, 1000)),
        tuple(draw(st.lists(fault, max_size=6))),
        guarantee,
        tuple(draw(st.sets(st.integers(0, 7), max_size=2))) if guarantee is not None else (),
        beats=beats,
    )
