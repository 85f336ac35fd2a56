from studies.ruscarl.study import STUDY

STUDY.main()
