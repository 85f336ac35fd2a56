from studies.marsrl.study import STUDY

STUDY.main()
