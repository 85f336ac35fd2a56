"""What verifiers looks up under the id ``mars-env-verifiers``: see `mars_env.trainers.verifiers`."""

from mars_env.trainers.verifiers import TeamEnv, TeamTaskset, TurnHarness, load_environment

__all__ = ["TeamEnv", "TeamTaskset", "TurnHarness", "load_environment"]
