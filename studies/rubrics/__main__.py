from studies.rubrics.study import STUDY

STUDY.main()
