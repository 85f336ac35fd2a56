"""`python -m studies.ruscarl`."""

from studies.ruscarl.study import STUDY

STUDY.main()
