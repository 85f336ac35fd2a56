from studies.tools.study import STUDY

STUDY.main()
