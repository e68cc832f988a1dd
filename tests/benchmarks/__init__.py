"""Side by side in one run, with ratios: `python -m tests.benchmarks.ledgers`."""
