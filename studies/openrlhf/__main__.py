"""`python -m studies.openrlhf`."""

from studies.openrlhf.study import STUDY

STUDY.main()
