"""The settings that OpenRLHF's agent reads from a file."""

from __future__ import annotations

import pytest
from messages import raises

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.agent_file.prompts import read_settings
from mars_env.trainers.openrlhf.settings import TeamSettings


def test_settings_are_read_as_they_were_written(tmp_path):
    settings = TeamSettings(env="aime-solve-verify-correct", group=4)
    file = tmp_path / "team.json"
    file.write_text(settings.model_dump_json(), encoding="utf-8")
    assert read_settings(file) == settings


@pytest.mark.parametrize(
    "text",
    [
        '{"env": "aime-solve", "grup": 4}',
        '{"env": "aime-solve", "group": "many"}',
        '{"env": ',
    ],
)
def test_settings_that_do_not_fit_are_one_sentence(tmp_path, text):
    file = tmp_path / "team.json"
    file.write_text(text, encoding="utf-8")
    with raises(ConfigError) as told:
        read_settings(file)
    assert "\n" not in str(told.value)
    assert "pydantic.dev" not in str(told.value)
