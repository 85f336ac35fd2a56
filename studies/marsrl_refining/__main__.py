from studies.marsrl_refining.study import STUDY

STUDY.main()
