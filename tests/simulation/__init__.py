"""Many instances, one store, one fake clock: the limiter's own ledger under load that no test machine could carry.

`python -m tests.simulation` runs the full size and writes build/figures/simulate.json and docs/simulation.md.
"""
