"""`python -m studies.rubrics`: RuscaRL and rubric judges."""

import typer

from studies.rubrics.study import main

typer.run(main)
