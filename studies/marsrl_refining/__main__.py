"""`python -m studies.marsrl_refining`: one agent that revises."""

import typer

from studies.marsrl_refining.study import main

typer.run(main)
