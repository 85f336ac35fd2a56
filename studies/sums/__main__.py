"""`python -m studies.sums`."""

from studies.sums.study import STUDY

STUDY.main()
