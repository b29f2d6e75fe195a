"""Internal. The driver's side of a topology: its loop, its slots, commits, placing."""
