"""Due times are exact, and what was missed is left out."""

from pystorm_spark.runtime.timers import Timer, Timers


def test_periods_do_not_add_up_errors():
    timer, dues = Timer(0.1, 0.3, print), []
    for _ in range(1000):
        dues.append(timer.due)
        timer.advance(timer.due)

    assert dues == [round(0.3 + number * 0.1, 9) for number in range(1, 1001)]


def test_a_timer_that_was_held_up_keeps_its_step():
    timer = Timer(0.5, 0.0, print)
    timer.advance(2.2)

    assert timer.due == 2.5


def test_timers_fire_once_for_all_that_they_missed():
    timers, fired = Timers(), []
    timers.every(1, 0.0, lambda: fired.append(1))
    timers.run(5.5)

    assert fired == [1]
    assert timers.next_due == 6
