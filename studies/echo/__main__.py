"""`python -m studies.echo`."""

from studies.echo.study import STUDY

STUDY.main()
