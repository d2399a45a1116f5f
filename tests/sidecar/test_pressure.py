"""Saturation: one late probe is a hiccup, a row of them a queue, and the first in time ends it."""

from sidecar.pressure import FULL, PROBE, REST, SPAN, TIMELY, Pressure


def test_one_late_probe_is_no_saturation():
    pressure = Pressure()
    pressure.note(10 * FULL)
    assert pressure.saturation == 0.0


def test_a_row_of_late_probes_is_as_much_as_the_least_of_them():
    pressure = Pressure()
    for late in (FULL, 2 * FULL, FULL // 2, FULL):
        pressure.note(late)
    assert pressure.saturation == 0.5


def test_every_probe_is_told():
    told = []
    pressure = Pressure(told.append)
    for late in (*[FULL // 2] * (SPAN + 1), 0):
        pressure.note(late)
    assert told == [*[0.0] * (SPAN - 1), 0.5, 0.5, 0.0]


def test_saturation_is_never_above_one_or_below_zero_and_ends_with_the_first_probe_in_time():
    pressure = Pressure()
    for _ in range(SPAN):
        pressure.note(50 * FULL)
    assert pressure.saturation == 1.0
    pressure.note(-1000)
    assert pressure.saturation == 0.0


def test_probes_are_rare_until_one_is_late_and_again_after_the_first_in_time():
    pressure = Pressure()
    assert pressure.pause() == REST
    pressure.note(TIMELY + 1)
    assert pressure.pause() == PROBE
    pressure.note(TIMELY)
    assert pressure.pause() == REST
