from studies.tools_verify.study import STUDY

STUDY.main()
