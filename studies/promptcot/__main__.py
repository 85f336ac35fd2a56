from studies.promptcot.study import STUDY

STUDY.main()
