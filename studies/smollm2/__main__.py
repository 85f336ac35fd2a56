"""`python -m studies.smollm2`."""

from studies.smollm2.study import STUDY

STUDY.main()
