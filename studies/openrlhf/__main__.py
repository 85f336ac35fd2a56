from studies.openrlhf.study import STUDY

STUDY.main()
