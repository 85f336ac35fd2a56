"""`python -m studies.marsrl_robustness`."""

from studies.marsrl_robustness.study import STUDY

STUDY.main()
