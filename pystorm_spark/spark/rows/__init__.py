"""Internal. DataFrames on their way to spouts and from bolts, the driver's side."""
