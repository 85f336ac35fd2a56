import json

GENEROUS = """
from mars_env.types import Grade

class Generous:
    async def grade(self, problem, text):
        return Grade.correct() if problem.reference in text else Grade.wrong("it is not there")
"""


def test_nothing_is_found(call):
    printed, status = call("audit", "arithmetic-solve", "--limit", 2)
    assert status == 0 and "0 findings" in printed and "knows the reference" in printed


def test_a_finding_as_json(call, tmp_path):
    (tmp_path / "generous.py").write_text(GENEROUS)
    grader = ["--grader", "generous:Generous"]
    printed, status = call("audit", "arithmetic-solve", "--limit", 2, *grader, "--json")
    report = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    assert status == 1 and report["problems"] == 2 and report["environment"] == "arithmetic-solve"
    assert report["rows"][0]["finding"] and report["rows"][0]["role"] == "solver"


def test_what_is_not_audited_has_not_passed(call):
    printed, status = call("audit", "reports-spell", "--limit", 1)
    assert status == 2 and "not audited: verifier" in printed
