"""`python -m studies.echo`: Echo."""

import typer

from studies.echo.study import main

typer.run(main)
