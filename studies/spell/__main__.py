from studies.spell.study import STUDY

STUDY.main()
