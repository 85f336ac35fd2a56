"""Grading of programs: they are run in sandboxes."""

from mars_env.grading.code.grader import CodeGrader as CodeGrader
