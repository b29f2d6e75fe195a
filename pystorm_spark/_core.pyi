from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

def compiled(function: F) -> F: ...
def laid_out(cls: C) -> C: ...
