"""Known ways to break the law, and which runs catch each: `python -m tests.mutants`."""
