"""`python -m studies.mars2_choice`: the final choice among MARS2 programs."""

import typer

from studies.mars2_choice.study import main

typer.run(main)
