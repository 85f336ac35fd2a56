"""`python -m studies.promptcot`."""

from studies.promptcot.study import STUDY

STUDY.main()
