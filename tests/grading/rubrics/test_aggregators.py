"""Every formula by values that were computed by hand."""

import pytest

from mars_env.errors import ConfigError
from mars_env.grading.rubrics import Interaction, Rubric, Saturate, Shape, Veto, WeightedSum

RUBRIC = Rubric.from_rows(
    [
        {"id": "proof", "text": "It is proved.", "points": 5},
        {"id": "clear", "text": "It is clear.", "points": 3, "tiers": [[0, "no"], [0.5, "half"], [1, "yes"]]},
        {"id": "rude", "text": "It is rude.", "points": -4, "tags": ["veto"]},
    ]
)


def fractions(proof, clear, rude):
    return {"proof": proof, "clear": clear, "rude": rude}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (fractions(1, 1, 0), 1.0),  # 8 / 8
        (fractions(1, 0.5, 0), 6.5 / 8),
        (fractions(0, 0, 1), -0.5),  # -4 / 8: raw, below 0
        (fractions(1, 0, 1), 1 / 8),
        (fractions(0, 0, 0), 0.0),
    ],
)
def test_the_weighted_sum_of_ruscarl(given, value):
    assert WeightedSum()(RUBRIC, given) == pytest.approx(value)


def test_saturation_flattens_above_the_threshold_and_leaves_full_marks_and_penalties():
    saturated = Saturate(WeightedSum(), at=0.5, slope=0.25)  # g(1) = 0.625, g(0.5) / g(1) = 0.8
    assert saturated(RUBRIC, fractions(1, 0.5, 0)) == pytest.approx((5 + 3 * 0.8) / 8)
    assert saturated(RUBRIC, fractions(1, 1, 0)) == 1.0
    assert saturated(RUBRIC, fractions(0, 0, 1)) == -0.5


def test_an_interaction_adds_a_product_of_fractions():
    both = Interaction(WeightedSum(), "proof", "clear", weight=0.5)
    assert both(RUBRIC, fractions(1, 0.5, 0)) == pytest.approx(6.5 / 8 + 0.5 * 0.5)
    assert both(RUBRIC, fractions(1, 0, 0)) == pytest.approx(5 / 8)
    with pytest.raises(ConfigError):
        Interaction(WeightedSum(), "prof", "clear", 1)(RUBRIC, fractions(1, 1, 0))


def test_shaping_stretches_high_values_and_keeps_negative_ones():
    shaped = Shape(WeightedSum(), power=3)
    assert shaped(RUBRIC, fractions(1, 0, 0)) == pytest.approx((5 / 8) ** 3)
    assert shaped(RUBRIC, fractions(0, 0, 1)) == -0.5
    high = shaped(RUBRIC, fractions(1, 1, 0)) - shaped(RUBRIC, fractions(1, 0.5, 0))
    low = shaped(RUBRIC, fractions(0, 1, 0)) - shaped(RUBRIC, fractions(0, 0.5, 0))
    assert high > low  # the same step of 1.5 points


def test_a_veto_cancels_everything_else():
    veto = Veto(WeightedSum())  # by the tag
    assert veto(RUBRIC, fractions(1, 1, 0)) == 1.0
    assert veto(RUBRIC, fractions(1, 1, 1)) == 0.0
    assert veto(RUBRIC, fractions(0, 0, 1)) == -0.5  # never better than without the veto
    assert Veto(WeightedSum(), ("clear",), below=0.5)(RUBRIC, fractions(1, 0.5, 0)) == pytest.approx(6.5 / 8)
    assert Veto(WeightedSum(), ("clear",), below=0.6)(RUBRIC, fractions(1, 0.5, 0)) == 0.0
    assert Veto(WeightedSum(), ("not here",))(RUBRIC, fractions(1, 1, 0)) == 1.0
