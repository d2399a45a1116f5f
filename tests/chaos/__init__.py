"""Real Redis broken under load, in every way that an operator meets.

`python -m tests.chaos` plays all faults and writes build/figures/chaos.json.
"""
