"""`python -m studies.mars2`: MARS2."""

import typer

from studies.mars2.study import main

typer.run(main)
