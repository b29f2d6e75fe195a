"""Internal. Frames and values as bytes: msgpack, with extension types for what msgpack does not know."""
