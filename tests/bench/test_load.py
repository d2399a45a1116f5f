"""What the benchmark asks h2load for, and what it reads from its log."""

import pytest

from bench.load import TICK, LoadFailed, Shape, pace, read_rows, spacing


def options(shape):
    words = pace(shape)
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize("rate", [40, 366, 700, 915, 1831, 2000, 5000])
def test_a_fixed_rate_is_kept_and_comes_one_at_a_time(rate):
    found = options(Shape(2 * rate, rate=rate))
    senders = int(found["-c"])
    assert senders * float(found["--rps"]) == pytest.approx(rate, rel=1e-3)
    assert 1 / float(found["--rps"]) >= TICK
    assert int(found["-n"]) % senders == 0
    assert int(found["-n"]) == pytest.approx(2 * rate, abs=senders)


@pytest.mark.parametrize("rate", [40, 366, 700, 915, 1831, 2000])
def test_turns_lie_evenly_in_the_period_of_the_senders(rate):
    step, period = spacing(rate, 31), 31_000 / rate
    turns = sorted(number * step % period for number in range(31))
    gaps = [later - turn for turn, later in zip(turns, [*turns[1:], turns[0] + period], strict=True)]
    assert max(gaps) <= 2.1 * period / 31


def test_a_free_run_has_no_pace():
    assert pace(Shape(100, connections=4)) == ["-n", "100", "-c", "4"]


def test_times_are_read_in_order_of_starts_and_without_the_warm_up():
    lines = [f"{1_000_000 + 10_000 * n}\t200\t{9_000 if n < 15 else 2_000}" for n in reversed(range(100))]
    load = read_rows(lines, {"sidecar": 0.01})
    assert (load.requests, load.p50, load.longest) == (100, 2.0, 2.0)
    assert load.rps == pytest.approx(100)
    assert load.cpu_us == {"sidecar": pytest.approx(100)}


@pytest.mark.parametrize("lines", [[], ["1\t200\t5", "2\t503\t5"], ["1\t-1\t5"]])
def test_a_run_with_failures_is_no_figure(lines):
    with pytest.raises(LoadFailed):
        read_rows(lines, {})
