from studies.tools_smollm2.study import STUDY

STUDY.main()
