from studies.smollm2.study import STUDY

STUDY.main()
