"""Every public name of the testing kit has an example, and all examples run: in docstrings and in docs/testing.md."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import pystorm_spark.testing

DOCS = Path(__file__).parents[2] / "docs" / "testing.md"
PUBLIC = sorted(pystorm_spark.testing.__all__)
MODULES = sorted({getattr(pystorm_spark.testing, name).__module__ for name in PUBLIC})


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(pystorm_spark.testing, name))


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    tried = doctest.testmod(importlib.import_module(name))
    assert tried.attempted
    assert not tried.failed


def test_examples_of_the_documentation_run():
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    namespace = {"__name__": "docs"}
    for block in blocks:
        exec(block, namespace)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_in_the_documentation(name):
    assert re.search(rf"\b{name}\b", DOCS.read_text(encoding="utf-8"))
