"""Benchmarks of rai's overhead (`make bench`); rows are appended to results.jsonl."""
