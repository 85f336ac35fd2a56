"""`python -m studies.sums`: subset sums."""

import typer

from studies.sums.study import main

typer.run(main)
