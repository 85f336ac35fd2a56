"""`python -m studies.rubrics`."""

from studies.rubrics.study import STUDY

STUDY.main()
