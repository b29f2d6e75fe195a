"""Settings for every test: Hypothesis draws the same examples on every CI run, and no example has a deadline."""

import os

from hypothesis import settings

from tests.spark.conftest import spark  # noqa: F401 - the one session of all tests that need Spark

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
