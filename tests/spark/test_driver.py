"""When the driver commits: a slot that answers at once, exchanges that end when told to, and a clock that jumps."""

import pytest

from pystorm_spark.spark.control import SlotLink
from pystorm_spark.spark.driver import Driver

INTERVAL_SECS = 1.0


class JumpingChanges:
    """What the driver waits on: time passes at once, and nothing else ever happens."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def __enter__(self):
        pass

    def __exit__(self, *exc):
        pass

    def notify_all(self):
        pass

    def wait_for(self, condition, timeout=None):
        if not condition():
            assert timeout is not None, "the driver would wait for ever"
            self.now += timeout
        return condition()


class EagerSlot:
    """Does all it is asked to at once, and has something to commit again as soon as a commit is made."""

    def __init__(self, driver):
        self._driver = driver
        self.link = SlotLink(0, 0, self, is_near=False)
        self.link.state = "ready"
        driver.slots[0] = self.link

    def send(self, message):
        self._driver.on_message(self.link, {"kind": "done", "asked": message["asked"]})
        if message["kind"] == "commit":
            self.has_uncommitted()

    def has_uncommitted(self):
        self._driver.on_message(self.link, {"kind": "uncommitted", "is_urgent": False})

    def has_frames(self):
        self._driver.on_message(self.link, {"kind": "frames"})


class Commits:
    """The times at which commits were made."""

    interval_secs = INTERVAL_SECS
    is_exactly_once = False
    txid = 0

    def __init__(self, changes):
        self._changes = changes
        self.made_at = []

    def commit(self, txid, replies):
        self.made_at.append(self._changes.now)
        return True


class ExchangesUntil:
    """Exchanges that go on until a condition holds."""

    def __init__(self, done):
        self.done = done

    def exchange(self, order, exchanges):
        return self

    def result(self):
        return {}


@pytest.fixture
def changes():
    return JumpingChanges()


@pytest.fixture
def commits(changes):
    return Commits(changes)


def driver_of(changes, commits, done=lambda: True):
    return Driver(1, ExchangesUntil(done), b"token", 3, 60.0, changed=changes, keeper=commits)


def test_a_commit_is_made_while_exchanges_go_on(changes, commits):
    driver = driver_of(changes, commits, done=lambda: bool(commits.made_at))
    slot = EagerSlot(driver)
    slot.has_frames()
    slot.has_uncommitted()
    driver.batch()
    assert commits.made_at == [100.0 + INTERVAL_SECS]


def test_commits_are_an_interval_apart_though_there_is_always_something_to_commit(changes, commits):
    driver = driver_of(changes, commits)
    EagerSlot(driver).has_uncommitted()
    for _ in range(4):
        driver.batch()
    assert commits.made_at == [100.0 + number * INTERVAL_SECS for number in range(1, 5)]
