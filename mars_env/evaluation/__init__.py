"""What a run shows: metrics with intervals, baselines, comparisons, reports."""

from mars_env.evaluation.baselines import (
    Baseline,
    majority,
    oracle,
    refinement,
    retries,
    samples_for,
    single,
    token_budget,
    weighted_vote,
)
from mars_env.evaluation.compare import Comparison, compare
from mars_env.evaluation.costs import cost, policies
from mars_env.evaluation.counts import Counts, count
from mars_env.evaluation.custom_metrics import register_metric, remove_metric
from mars_env.evaluation.metrics import Metric, estimates, measure
from mars_env.evaluation.provenance import Provenance, provenance
from mars_env.evaluation.report import MetricEstimate, Report, build_report
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
    "answers_of_grading",
    "build_report",
    "compare",
    "cost",
    "count",
    "difference",
    "estimates",
    "maj_at_k",
    "majority",
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
