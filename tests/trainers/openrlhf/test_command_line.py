"""Flags of OpenRLHF, from the tables of a run file and back to words."""

import pytest

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.command_line import as_words, flags_of


def test_each_key_is_the_flag_of_its_path():
    tables = {"ds": {"zero_stage": 3, "enable_sleep": True, "overlap_comm": False}, "vllm.num_engines": 2}
    flags = flags_of(tables | {"actor": {"muon": {"betas": [0.9, 0.95]}}})
    assert flags == {
        "--ds.zero_stage": ["3"],
        "--ds.enable_sleep": [],
        "--vllm.num_engines": ["2"],
        "--actor.muon.betas": ["0.9", "0.95"],
    }
    assert as_words({"--b": ["1", "2"], "--a": ["-1"], "--c": []}) == ["--b", "1", "2", "--a=-1", "--c"]


@pytest.mark.parametrize("value", [[[0.9], 1], [], object()])
def test_what_no_flag_can_take_is_refused(value):
    with pytest.raises(ConfigError):
        flags_of({"actor": {"betas": value}})
