from studies.mars2_choice.study import STUDY

STUDY.main()
