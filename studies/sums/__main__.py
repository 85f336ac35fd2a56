from studies.sums.study import STUDY

STUDY.main()
