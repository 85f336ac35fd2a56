"""`python -m studies.marsrl_robustness`: MarsRL from other warm starts."""

import typer

from studies.marsrl_robustness.study import main

typer.run(main)
