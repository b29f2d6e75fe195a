"""The compiled core; everything else about the package is in setup.cfg."""

from setuptools import Extension, setup

# optional: without a compiler the package is installed all the same, and runs on Python alone.
setup(ext_modules=[Extension("pystorm_spark._core", ["pystorm_spark/_core.c"], optional=True)])
