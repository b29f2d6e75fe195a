"""Internal. Hashes of grouping keys: the same in every process, and those of Java where a port needs them."""
