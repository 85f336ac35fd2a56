"""`python -m studies.openrlhf`: OpenRLHF beside the local trainer."""

import typer

from studies.openrlhf.study import main

typer.run(main)
