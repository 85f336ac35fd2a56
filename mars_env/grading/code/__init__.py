"""Grading of programs: they are run in sandboxes."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.grading.code.grader import CodeGrader as CodeGrader

__getattr__, __dir__, __all__ = lazy_names(__name__)
