from studies.mars2.study import STUDY

STUDY.main()
