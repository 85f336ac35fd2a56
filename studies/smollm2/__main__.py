"""`python -m studies.smollm2`: SmolLM2 on word problems."""

import typer

from studies.smollm2.study import main

typer.run(main)
