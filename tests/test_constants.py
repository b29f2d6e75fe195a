"""One constant, one value: a name that two modules give different values makes its readers look twice."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "pystorm_spark"


def constants(source):
    """(name, value as it is written) of each constant at the top of a module; type variables are none."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from assigned(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from assigned(node.target, node.value)


def assigned(target, value):
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for each, its in zip(target.elts, value.elts, strict=True):
            yield from assigned(each, its)
    elif isinstance(target, ast.Name) and target.id.isupper() and not ast.unparse(value).startswith("TypeVar("):
        yield target.id.lstrip("_"), ast.unparse(value)


def doubles(sources):
    """{name: {module: value}} of the constants that have several values; `sources` is {module: its text}."""
    found = defaultdict(dict)
    for module, source in sources.items():
        for name, value in constants(source):
            found[name][module] = value
    return {name: values for name, values in found.items() if len(set(values.values())) > 1}


def test_a_constant_has_one_value_in_the_whole_package():
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    assert not doubles(sources)


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ("LIMIT = 1", "LIMIT = 2", {"LIMIT"}),
        ("LIMIT = 1", "_LIMIT: int = 2", {"LIMIT"}),
        ("FEW, MANY = 1, 2", "FEW, MANY = 1, 3", {"MANY"}),
        ("LIMIT = 1", "LIMIT = 1", set()),
        ("T = TypeVar('T')", "T = TypeVar('T', bound=int)", set()),
        ("def f():\n    LIMIT = 1", "LIMIT = 2", set()),
    ],
)
def test_a_name_with_two_values_is_found(one, other, names):
    assert doubles({"one.py": one, "other.py": other}).keys() == names
