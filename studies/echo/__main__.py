from studies.echo.study import STUDY

STUDY.main()
