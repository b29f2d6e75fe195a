"""The version of pystorm-spark."""

__version__ = "0.1.0"
