"""The benchmarks: one question per file.

`python -m benchmarks` runs all of them, `python -m benchmarks.word_count` runs one. Each uses the public API of
`LocalCluster` or `SparkCluster`, and measures a baseline in the same run. Each run is noted in `runs/`; `--write` keeps
the results in `results/` and writes their tables into `docs/performance.md`.
"""
