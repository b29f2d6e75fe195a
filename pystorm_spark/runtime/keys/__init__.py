"""Internal. Hashes of grouping keys: the same in every process, and Java's hashes for topologies moved from Storm."""
