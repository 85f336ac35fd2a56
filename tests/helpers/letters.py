"""Texts of models that know no words."""


class Writing:
    """Concepts, then ``rationale;problem``."""

    def from_concepts(self, concepts):
        return "".join(concepts) + ":"

    def from_problem(self, concepts, problem):
        return "".join(concepts) + "/" + problem + ":"

    def parts(self, design):
        return design.rationale + ";", design.problem

    def read(self, text):
        rationale, _, problem = text.partition(";")
        return (rationale, problem) if rationale and problem and ";" not in problem else None
