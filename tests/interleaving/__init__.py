"""Controlled interleavings: real threads of which one runs at a time, and which hand over where a test says so."""
