"""What a run shows: metrics with intervals, baselines, comparisons, reports."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.evaluation.baselines import Baseline as Baseline
    from mars_env.evaluation.compare import compare_trees as compare_trees
    from mars_env.evaluation.metrics import register_metric as register_metric
    from mars_env.evaluation.metrics import remove_metric as remove_metric
    from mars_env.evaluation.report import RunDescription as RunDescription
    from mars_env.evaluation.report import build_report as build_report

__getattr__, __dir__, __all__ = lazy_names(__name__)
