"""`python -m studies.promptcot`: PromptCoT 2.0."""

import typer

from studies.promptcot.study import main

typer.run(main)
