"""`python -m studies.marsrl_refining`."""

from studies.marsrl_refining.study import STUDY

STUDY.main()
