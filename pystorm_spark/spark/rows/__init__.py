"""Internal. Rows: how DataFrames reach spouts, and how kept tuples become DataFrames; the driver's side."""
