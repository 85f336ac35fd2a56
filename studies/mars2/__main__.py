"""`python -m studies.mars2`."""

from studies.mars2.study import STUDY

STUDY.main()
