"""`python -m studies.tools`."""

from studies.tools.study import STUDY

STUDY.main()
