"""What a run shows: metrics with intervals, baselines, comparisons, reports."""

from mars_env.evaluation.baselines import (
    Baseline,
    majority_vote,
    oracle,
    refinement,
    retries,
    samples_for,
    single,
    token_budget,
    weighted_vote,
)
from mars_env.evaluation.compare import Comparison, compare_trees
from mars_env.evaluation.costs import cost, policies
from mars_env.evaluation.counts import Counts, count_trees
from mars_env.evaluation.metrics import Metric, estimates, measure, register_metric, remove_metric
from mars_env.evaluation.provenance import Provenance, provenance
from mars_env.evaluation.report import MetricEstimate, Report, RunDescription, build_report
from mars_env.evaluation.statistics import Estimate, difference, maj_at_k, mean, pass_at_k, ratio
from mars_env.evaluation.trees import answers_of_grading

__all__ = [
    "Baseline",
    "Comparison",
    "Counts",
    "Estimate",
    "Metric",
    "MetricEstimate",
    "Provenance",
    "Report",
    "RunDescription",
    "answers_of_grading",
    "build_report",
    "compare_trees",
    "cost",
    "count_trees",
    "difference",
    "estimates",
    "maj_at_k",
    "majority_vote",
    "mean",
    "measure",
    "oracle",
    "pass_at_k",
    "policies",
    "provenance",
    "ratio",
    "refinement",
    "register_metric",
    "remove_metric",
    "retries",
    "samples_for",
    "single",
    "token_budget",
    "weighted_vote",
]
