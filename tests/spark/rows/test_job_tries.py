"""How often a Spark job is tried that fails, and what does not count as its failure."""

import pytest
from py4j.protocol import Py4JError

from pystorm_spark.errors import StormError
from pystorm_spark.spark.errors import translated
from pystorm_spark.spark.rows.job_tries import WORKER_LOSS_SECS, JobTries

LOST = Py4JError("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")
RAISED = Py4JError("Traceback (most recent call last):\nValueError: Python worker exited unexpectedly")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def tried(error, times, secs):
    """After which of so many failures, so many seconds apart, the tries are over."""
    clock = Clock()
    tries = JobTries(3, clock)
    for number in range(1, times + 1):
        if tries.are_over(error):
            return number
        clock.now += secs
    return None


@pytest.mark.parametrize("error", [OSError("the disk is full"), RAISED, StormError("no"), SystemExit("EOFException")])
def test_a_job_that_fails_by_itself_is_tried_three_times(error):
    assert tried(error, times=10, secs=0.1) == 3


def test_the_deaths_of_python_workers_do_not_end_a_job_for_a_minute():
    assert tried(LOST, times=20, secs=WORKER_LOSS_SECS / 20) is None


def test_a_job_under_which_workers_die_for_longer_is_given_up():
    assert tried(LOST, times=20, secs=WORKER_LOSS_SECS) == 4


def test_a_worker_is_lost_whoever_has_translated_the_error():
    with pytest.raises(StormError) as caught, translated("the rows cannot be read"):
        raise LOST
    assert tried(caught.value, times=20, secs=1.0) is None


def test_it_is_told_how_often_a_job_was_tried():
    tries = JobTries(3, Clock())
    for error in (LOST, RAISED, RAISED, RAISED):
        tries.are_over(error)
    assert tries.told() == "4 times"
