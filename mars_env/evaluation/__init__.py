"""What a run shows: metrics with intervals, baselines, comparisons, reports."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.evaluation.baselines import Baseline as Baseline
    from mars_env.evaluation.baselines import majority_vote as majority_vote
    from mars_env.evaluation.baselines import oracle as oracle
    from mars_env.evaluation.baselines import refinement as refinement
    from mars_env.evaluation.baselines import retries as retries
    from mars_env.evaluation.baselines import samples_for as samples_for
    from mars_env.evaluation.baselines import single as single
    from mars_env.evaluation.baselines import token_budget as token_budget
    from mars_env.evaluation.baselines import weighted_vote as weighted_vote
    from mars_env.evaluation.compare import Comparison as Comparison
    from mars_env.evaluation.compare import compare_trees as compare_trees
    from mars_env.evaluation.costs import cost as cost
    from mars_env.evaluation.costs import policies as policies
    from mars_env.evaluation.counts import Counts as Counts
    from mars_env.evaluation.counts import count_trees as count_trees
    from mars_env.evaluation.metrics import Metric as Metric
    from mars_env.evaluation.metrics import estimates as estimates
    from mars_env.evaluation.metrics import measure as measure
    from mars_env.evaluation.metrics import register_metric as register_metric
    from mars_env.evaluation.metrics import remove_metric as remove_metric
    from mars_env.evaluation.report import MetricEstimate as MetricEstimate
    from mars_env.evaluation.report import Report as Report
    from mars_env.evaluation.report import RunDescription as RunDescription
    from mars_env.evaluation.report import build_report as build_report
    from mars_env.evaluation.statistics import Estimate as Estimate
    from mars_env.evaluation.statistics import difference as difference
    from mars_env.evaluation.statistics import maj_at_k as maj_at_k
    from mars_env.evaluation.statistics import mean as mean
    from mars_env.evaluation.statistics import pass_at_k as pass_at_k
    from mars_env.evaluation.statistics import ratio as ratio
    from mars_env.evaluation.trees import final_answer as final_answer

__getattr__, __dir__, __all__ = lazy_names(__name__)
