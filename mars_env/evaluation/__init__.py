"""What a run shows: metrics with intervals, baselines, comparisons, reports."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.evaluation.baselines import Baseline as Baseline
    from mars_env.evaluation.compare import compare_trees as compare_trees
    from mars_env.evaluation.metrics import Metric as Metric
    from mars_env.evaluation.metrics import register_metric as register_metric
    from mars_env.evaluation.metrics import remove_metric as remove_metric
    from mars_env.evaluation.report import Report as Report
    from mars_env.evaluation.report import RunDescription as RunDescription
    from mars_env.evaluation.report import build_report as build_report
    from mars_env.evaluation.statistics import Estimate as Estimate
    from mars_env.evaluation.statistics import maj_at_k as maj_at_k
    from mars_env.evaluation.statistics import pass_at_k as pass_at_k

__getattr__, __dir__, __all__ = lazy_names(__name__)
