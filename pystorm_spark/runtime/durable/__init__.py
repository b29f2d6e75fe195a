"""Internal. The durable side of a slot: what a commit holds, and which messages are committed."""
