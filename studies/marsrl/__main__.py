"""`python -m studies.marsrl`."""

from studies.marsrl.study import STUDY

STUDY.main()
