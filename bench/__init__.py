"""What a decision costs, and what it adds behind Envoy. `python -m bench` measures, prints and writes it down.

Machines differ and are noisy: figures that are compared come from the same run, interleaved, as medians; the ratios are
what counts. See docs/benchmarks.md.
"""
