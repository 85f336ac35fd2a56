"""A crowd chooses as plain draws of all children do, and draws few of them."""

import numpy as np
import pytest
from scipy import stats

from mars_env.search import ABMCTSA, ABMCTSASettings, Ask, BetaPrior, GaussianPrior, Search, SearchSettings
from mars_env.search import crowd as of_crowds
from mars_env.search.crowd import Crowd

SIZE, NUMBER = 600, 4000
LANDSCAPES = ("distinct", "halves", "fresh", "one above all", "all alike")


def rows_of(landscape):
    """n, total and squares of many children."""
    rng = np.random.default_rng(5)
    n = rng.integers(1, 2 if landscape == "fresh" else 9, SIZE)
    scores = [rng.random(count) if landscape == "distinct" else rng.integers(0, 3, count) / 2 for count in n]
    if landscape == "one above all":
        scores = [each / 20 for each in scores]
        scores[500] = np.full(50, 0.9)
    if landscape == "all alike":
        scores = [np.zeros(2)] * SIZE
    return np.array([(len(each), each.sum(), (each * each).sum()) for each in scores])


def same_law(one, other, size):
    """The p value of a chi-square test that children are chosen as often; rare ones are counted together."""
    table = np.array([np.bincount(choices, minlength=size) for choices in (one, other)])
    table = table[:, table.sum(0).argsort()]
    groups = np.unique(table.sum(0).cumsum() // 50, return_index=True)[1]
    pooled = np.add.reduceat(table, groups, axis=1)
    return 1.0 if pooled.shape[1] == 1 else stats.chi2_contingency(pooled).pvalue


@pytest.mark.parametrize("points", [12, 1], ids=["mostly above the bar", "often below it"])
@pytest.mark.parametrize("landscape", LANDSCAPES)
@pytest.mark.parametrize("prior", [BetaPrior(), GaussianPrior()], ids=["beta", "gaussian"])
def test_children_are_chosen_as_by_drawing_all(monkeypatch, prior, landscape, points):
    monkeypatch.setattr(of_crowds, "_POINTS", points)
    rows, rng = rows_of(landscape), np.random.default_rng(7)
    crowd = Crowd(prior, rows)
    chosen = [crowd.draw(rows, rng) for _ in range(NUMBER)]
    plain = [int(prior.draw(rng, *rows.T).argmax()) for _ in range(NUMBER)]
    # 20 tests with fixed seeds: a difference of one in ten thousand would be no accident.
    assert same_law(chosen, plain, SIZE) > 1e-4


def test_a_crowd_follows_its_rows():
    rng, prior = np.random.default_rng(3), BetaPrior()
    rows = np.vstack([rows_of("halves"), np.zeros((900, 3))])
    crowd, size, made = Crowd(prior, rows[:SIZE]), SIZE, 0
    for _ in range(3000):
        child = int(rng.integers(size + 1)) if size < len(rows) else int(rng.integers(size))
        size = max(size, child + 1)
        score = float(rng.random() < 0.2)
        rows[child] += 1, score, score
        if not crowd.update(rows[:size], child):
            crowd, made = Crowd(prior, rows[:size]), made + 1
    assert 1 <= made < 60
    expected = -np.log(prior.below(crowd._bar, *rows[:size].T))
    assert crowd._points.ravel()[:size] == pytest.approx(expected)
    assert crowd._of_block.sum() == pytest.approx(expected.sum())
    chosen = [crowd.draw(rows[:size], rng) for _ in range(NUMBER)]
    plain = [int(prior.draw(rng, *rows[:size].T).argmax()) for _ in range(NUMBER)]
    assert same_law(chosen, plain, size) > 1e-4


def wide(number, prior="beta"):
    """A root with so many children."""
    algorithm = ABMCTSA(("a",), ABMCTSASettings(prior={"kind": prior}))
    for id in range(number):
        algorithm.asked(Ask(id, None, "a"))
        algorithm.told(Ask(id, None, "a"), id % 7 / 7)
    return algorithm


def test_a_wide_node_draws_few_of_its_children(monkeypatch):
    sizes = []

    def counted(self, level, n, total, squares):
        sizes.append(np.size(n))
        return quantile(self, level, n, total, squares)

    algorithm, rng = wide(5000), np.random.default_rng(0)
    quantile = BetaPrior.quantile
    monkeypatch.setattr(BetaPrior, "quantile", counted)
    [arms] = algorithm._root.arms
    for _ in range(300):
        algorithm._draw_child(arms, rng)
    assert len(sizes) > 250 and np.mean(sizes) < 31


def test_a_wide_search_continues_as_if_it_had_not_stopped():
    search = Search(SearchSettings(calls=2600, stop_at=None), ("a",), seed=3)
    while len(search.asks) < 2500:
        [ask] = search.ask(1)
        search.tell(ask.id, 0.0)
    assert max(len(node.arms[0].children) for node in search._algorithm._nodes.values()) > 1000
    resumed = Search.load(search.state_dict())
    for _ in range(100):
        [ask] = search.ask(1)
        assert resumed.ask(1) == [ask]
        search.tell(ask.id, 0.0)
        resumed.tell(ask.id, 0.0)
