"""`python -m studies.spell`."""

from studies.spell.study import STUDY

STUDY.main()
