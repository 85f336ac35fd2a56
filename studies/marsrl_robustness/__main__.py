from studies.marsrl_robustness.study import STUDY

STUDY.main()
