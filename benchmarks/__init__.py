"""What the engine costs, one question a file.

`python -m benchmarks` asks them all, `python -m benchmarks.word_count` asks one. Every figure is taken through the
public API of `LocalCluster` or `SparkCluster`, beside something to compare it with in the same run. Each run is noted
in `runs/`; `--write` keeps the results in `results/` and puts their tables into `docs/performance.md`.
"""
