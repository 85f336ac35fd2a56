"""SPELL's rules and rewards by hand-computed values, hostile questions and votes, the game by its name."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows
from spell_team import ASKED, CLUSTER, OTHER, cut, played, rewards_of

import mars_env
from mars_env.envs.growers import Linear
from mars_env.errors import ConfigError
from mars_env.grading.json_reply import MAX_JSON
from mars_env.methods.spell.answers import SameAnswer
from mars_env.methods.spell.rewards import DIFFICULTY, SpellReward, gaussian, majority_vote, outcomes
from mars_env.methods.spell.rules import MOST_QUESTION, cluster, read_question, read_vote, spell
from mars_env.methods.spell.training import SpellSettings, spell_game
from mars_env.testing.game_suite import DEFAULT_TEXTS, check_game
from mars_env.types import Action, Grade, Problem


def asked(**keys):
    return json.dumps({"question": "Which profit?", "answer": "17", **keys})


@pytest.mark.parametrize("grounding", [True, False])
def test_the_rules_keep_the_contract(grounding):
    texts = (*DEFAULT_TEXTS, ASKED, "17", "YES", "NO")
    check_game(spell(grounding=grounding), CLUSTER, texts=texts, episodes=200)


def test_a_problem_without_documents_is_refused():
    with pytest.raises(ConfigError):
        spell().start(Problem("p", "2 + 2?", "4"))
    with pytest.raises(ConfigError):
        cluster("c", "Ask.", ["a"], task="poem")
    alone = cluster("c", "Ask.", ["a"])
    with pytest.raises(ConfigError):
        spell().start(alone)
    spell(grounding=False).start(alone)


LONG = ("[" * 100_000, '{"a":' * 20_000, " " * MAX_JSON + "x" + ASKED, asked(question="w " * MOST_QUESTION))
QUESTIONS = read_rows(Path(__file__).with_name("questions.jsonl"))


@pytest.mark.parametrize("row", [*QUESTIONS, *({"text": text, "fault": "malformed"} for text in LONG)])
def test_a_question_is_one_object_and_after_words_it_stands_in_a_code_fence_at_the_end(row):
    found = read_question(row["text"])
    assert found.fault == row["fault"] and ((found.question, found.answer) == ("", "")) == bool(found.fault)


@pytest.mark.parametrize(
    ("answer", "fits"),
    [("17", True), (17, True), (-0.5, True), ("$1,204.50", True), ("12%", True),
     (0.00002, True), ("−5", True), (1e22, True), (1e300, False), ("--5", False), ("5-", False),
     ("0", False), ("0.0", False),
     ("17 or 18", False), ("1e999", False), ("9" * 400, False), ("seventeen", False)],
)  # fmt: skip
def test_a_number_is_one_number_that_is_not_zero(answer, fits):
    assert (read_question(asked(answer=answer), "number").fault == "") is fits


def test_a_choice_has_four_different_texts_and_a_letter():
    options = {"A": "1", "B": "2", "C": "3", "D": "4"}
    found = read_question(asked(answer="B", options=options), "choice")
    assert (found.question, found.answer) == ("Which profit?\nA. 1\nB. 2\nC. 3\nD. 4", "B")
    for answer, wrong in (("E", options), ("B", {**options, "D": "1"}), ("B", None), ("B", {"A": "1"})):
        assert read_question(asked(answer=answer, options=wrong), "choice").fault == "malformed"


def test_a_long_answer_is_dropped_only_from_general_questions():
    long = " ".join(["word"] * 41)
    assert read_question(asked(answer=long)).fault == "long"
    assert read_question(asked(answer=long[5:])).fault == ""


KEYS = st.sampled_from(["question", "answer", "options", "A", "B"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda v: st.lists(v) | st.dictionaries(KEYS, v)
    )
)
def test_any_json_is_read_without_an_error(value):
    for task in ("general", "number", "choice"):
        read_question(json.dumps(value), task)
        read_question(f"```json\n{json.dumps({'question': 'Why?', 'answer': value})}\n```", task)


@pytest.mark.parametrize(
    ("text", "vote"),
    [("YES", "yes"), ("so\nno", "no"), ("**NO.**\n\n", "no"), ("NO\nYES", "yes"), ("YES, surely", "unknown"),
     ("yes no", "unknown"), ("", "unknown"), ("yes\nof course", "unknown"), ("maybe", "unknown")],
)  # fmt: skip
def test_a_vote_is_the_last_line(text, vote):
    assert read_vote(text) == vote


@given(st.lists(st.sampled_from(["yes", "no", "unknown"]), max_size=9))
def test_unknown_votes_never_decide(votes):
    unknown = votes.count("unknown")
    known = [vote for vote in votes if vote != "unknown"]
    all_results = {majority_vote(known + ["yes"] * i + ["no"] * (unknown - i)) for i in range(unknown + 1)}
    decided = majority_vote(votes)
    if votes:
        assert all_results == {decided} if decided is not None else len(all_results) == 2
        if not unknown:
            assert decided == (votes.count("yes") > len(votes) / 2)  # the paper's formula
    else:
        assert decided is None


def test_the_questioners_rewards_by_hand():
    assert gaussian(0.5) == 1
    assert gaussian(0.25) == pytest.approx(math.exp(-1.125)) == pytest.approx(gaussian(0.75))
    assert DIFFICULTY["unsolved"](0.25) == 0.75
    assert [DIFFICULTY["tent"](m) for m in (0.25, 0.5, 0.875)] == [0.5, 1.0, 0.25]
    with pytest.raises(ConfigError):
        SpellReward("gausian")


async def test_the_whole_tree_is_rewarded():
    """Of four answers one fits the rule, one is right in other words, two are wrong."""
    votes = {
        "17": ("NO", "NO", "NO", "YES"),  # the rule says right, the majority wrong: right
        "seventeen": ("YES", "YES", "YES", "NO"),
        "2": ("NO", "NO", "YES", "YES"),  # a tie is no majority for yes
        "3": ("NO", "NO", "maybe", "NO"),
    }
    tree = await played(answers=tuple(votes), votes=lambda answer, i: votes[answer][i])
    rewards = rewards_of(tree)
    assert rewards["questioner"] == [1.0]  # a half is solved
    assert rewards["probe"] == [None]
    assert rewards["responder"] == [1.0, 1.0, 0.0, 0.0]
    assert rewards["verifier"] == [1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1]
    [outcome] = outcomes(tree)
    assert (outcome.kind, outcome.solved) == ("some", 0.5)


async def test_ungrounded_and_malformed_questions_end_their_trees():
    ungrounded = await played(blind="It is, of course:\n17")
    assert [turn.agent for turn in ungrounded.turns] == ["questioner_0", "responder_0"]
    assert rewards_of(ungrounded) == {"questioner": [0.0], "probe": [None]}
    malformed = await played(asked="17?")
    assert rewards_of(malformed) == {"questioner": [-1.0]}
    long = await played(asked=asked(answer="w " * 50))
    assert rewards_of(long) == {"questioner": [None]}
    no_check = await played(SpellSettings(group=2, verifiers=2, grounding=False), blind="17")
    assert len(no_check.turns) == 1 + 2 + 4


async def test_unreadable_verdicts_are_unknown_votes_and_no_third_vote():
    """In the release three unreadable outputs win against two that say yes."""
    said = ("YES", "YES", "yes?", "so be it", "")
    settings = SpellSettings(group=1, verifiers=5)
    tree = await played(settings, answers=("seventeen",), votes=lambda answer, i: said[i])
    rewards = rewards_of(tree)
    assert rewards["responder"] == [None] and rewards["questioner"] == [None]
    assert rewards["verifier"] == [None, None, 0.0, 0.0, 0.0]
    right = await played(settings, answers=("17",), votes=lambda answer, i: said[i])
    assert rewards_of(right)["responder"] == [1.0]  # the rule needs no vote


async def test_faults_of_the_machinery_are_no_rewards():
    cut_votes = await played(votes=lambda answer, i: cut("YES") if i == 3 else "YES")
    assert rewards_of(cut_votes)["verifier"][:4] == [1.0, 1.0, 1.0, None]
    cut_question = await played(asked=cut(ASKED))
    assert cut_question.turns[0].reward is None

    class Lost:
        async def grade(self, problem, text):
            return Grade.unknown("the grader was lost")

    lost = await played(game=spell_game(SpellSettings(group=2, verifiers=2), Lost()))
    assert rewards_of(lost) == {"questioner": [None], "probe": [None]}


def test_who_sees_what():
    documents = [f"text {i}" for i in range(4)]
    problem = cluster("c", "Ask.", documents, other_documents=["elsewhere"])
    examples = [{"question": "What?", "answer": "this"}]
    shown = Problem("c", "Ask.", None, "open", {**problem.metadata, "shown": [0, 2], "examples": examples})
    rules = spell()
    state = rules.start(shown)
    seen = rules.observe(state, "questioner_0")
    assert [text in seen["documents"] for text in documents] == [True, False, True, False]
    assert seen["examples"] == "Question: What?\nAnswer: this"
    state = rules.apply(state, Action(ASKED), None)
    other = {"documents": "Document 1:\nelsewhere", "question": "Which profit?"}
    assert rules.observe(state, "responder_0") == other
    state = rules.apply(state, Action("?"), Grade.wrong("no"))
    seen = rules.observe(state, "responder_0")
    assert all(text in seen["documents"] for text in documents) and "17" not in str(seen)
    state = rules.apply(state, Action("x" * 9000 + "\n17"), None)
    expected = {"question": "Which profit?", "answer": "17", "reference": "17"}
    assert rules.observe(state, "verifier_0") == expected


CLUSTERS = [cluster(f"c/{i}", "Ask.", ["Profit: 17.", "Loss: 2."], other_documents=OTHER) for i in range(4)]


def test_the_name_makes_the_whole_game():
    game = mars_env.make("reports-spell", problems=CLUSTERS, longest_answer=3).game
    assert game.rules.settings.longest_answer == 3 and isinstance(game.grader, SameAnswer)
    assert game.team_reward == SpellReward() and game.rewards == {} and game.grower is Linear
    assert not game.needs_reference  # the questioner makes it
    other = SpellReward("tent")
    assert mars_env.make("reports-spell", problems=CLUSTERS, team_reward=other).game.team_reward is other


def test_an_episode_by_hand():
    """One question, an answer from other documents, one from its own, one vote: it says that 18 is 17."""
    env = mars_env.make("reports-spell", problems=CLUSTERS)
    env.reset(seed=0)
    for text in (ASKED, "no idea", "It is 18.", "NO"):
        env.step(text)
    assert [turn.role for turn in env.tree.turns] == ["questioner", "responder", "responder", "verifier"]
    assert [turn.reward for turn in env.tree.turns] == [0.0, None, 0.0, 1.0]
    assert env.tree.final == env.tree.turns[2].id
    env.reset(seed=0)
    for text in (ASKED, "no idea", "It is 18.", "YES"):
        env.step(text)
    assert [turn.reward for turn in env.tree.turns] == [0.0, None, 1.0, 1.0]  # all solve it: nothing to learn


def test_a_team_that_makes_its_own_problems_cannot_be_asked():
    for env_id in ("spell", "reports-spell"):
        with pytest.raises(ConfigError):
            mars_env.solve("2 + 2?", agents="scripted:x", env_id=env_id)
