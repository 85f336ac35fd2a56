"""Problem sets: embedded generators, files, and the real sets from the Hugging Face hub."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.problems.aime import aime_problems as aime_problems
    from mars_env.problems.arithmetic import arithmetic_problems as arithmetic_problems
    from mars_env.problems.code import code_problem_from_row as code_problem_from_row
    from mars_env.problems.code import load_code_file as load_code_file
    from mars_env.problems.files import load_file as load_file
    from mars_env.problems.loading import check_references as check_references
    from mars_env.problems.loading import load_set as load_set
    from mars_env.problems.overlap import decontaminate as decontaminate
    from mars_env.problems.problem_set import ProblemSet as ProblemSet
    from mars_env.problems.programs import programs_problems as programs_problems
    from mars_env.problems.registry import list_problem_sets as list_problem_sets
    from mars_env.problems.registry import register_problem_set as register_problem_set
    from mars_env.problems.reports import reports_problems as reports_problems
    from mars_env.problems.written import write_problems as write_problems

__getattr__, __dir__, __all__ = lazy_names(__name__)
