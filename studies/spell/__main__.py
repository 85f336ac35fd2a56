"""`python -m studies.spell`: SPELL."""

import typer

from studies.spell.study import main

typer.run(main)
