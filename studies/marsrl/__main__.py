"""`python -m studies.marsrl`: MarsRL's ablation."""

import typer

from studies.marsrl.study import main

typer.run(main)
