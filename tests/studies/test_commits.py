from git_packages import git
from git_packages import package as package
from messages import raises

from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import provenance
from studies.common.commits import commit_of, committed


def test_a_tree_that_differs_is_refused(package):
    assert committed(provenance(package)).commit
    (package / "new.py").write_text("x = 2\n")
    with raises(ConfigError):
        committed(provenance(package))


def test_a_plan_has_the_commit_that_wrote_it_last_wherever_it_lies(package):
    plan = package.parent / "docs" / "plan.md"
    plan.write_text("one primary comparison\n")
    with raises(ConfigError):
        commit_of(plan)
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-qm", "plan")
    planned = git(package, "rev-parse", "HEAD")
    (package / "__init__.py").write_text("y = 2\n")
    git(package.parent, "commit", "-qam", "code")
    assert commit_of(plan) == planned
    git(package.parent, "mv", "docs/plan.md", "studies/one/plan.md")
    git(package.parent, "commit", "-qm", "move")
    plan = package.parent / "studies" / "one" / "plan.md"
    assert commit_of(plan) == planned
    plan.write_text("another comparison, after the first look\n")
    with raises(ConfigError):
        commit_of(plan)
