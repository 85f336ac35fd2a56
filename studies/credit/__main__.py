from studies.credit.study import STUDY

STUDY.main()
