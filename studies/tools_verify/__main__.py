"""`python -m studies.tools_verify`."""

from studies.tools_verify.study import STUDY

STUDY.main()
