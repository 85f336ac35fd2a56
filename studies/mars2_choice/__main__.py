"""`python -m studies.mars2_choice`."""

from studies.mars2_choice.study import STUDY

STUDY.main()
