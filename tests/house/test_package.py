from command_line import run_python

BLOCKED = """
import sys
class Blocked:
    names = {"torch", "transformers", "safetensors", "datasets", "pyarrow", "matplotlib", "tensorboard",
             "verifiers", "vllm"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Blocked())
"""


def test_without_an_extra_the_core_works_and_every_public_name_is_there_or_says_what_to_install():
    """With every optional package blocked, as on a machine where none is installed."""
    done = run_python(
        BLOCKED
        + """
import mars_env
env = mars_env.make('aime-solve-verify-correct')
env.reset(seed=0)
print(env.agent_selection, *env.observe(env.agent_selection))
import mars_env.agents, mars_env.models, mars_env.trainers
from mars_env.errors import MissingExtra
for package in (mars_env, mars_env.trainers, mars_env.models, mars_env.agents):
    for name in package.__all__:
        try:
            getattr(package, name)
        except MissingExtra as error:
            assert "pip install 'mars-env[" in str(error), error
            print(name)
try:
    import mars_env_verifiers
except MissingExtra:
    print("verifiers")
"""
    )
    assert done.returncode == 0, done.stderr
    first, *missing = done.stdout.splitlines()
    assert first.startswith("solver_0 problem")
    assert {"train", "fit", "LocalTrainer", "make_team", "HFModel", "verifiers"} <= {*missing}
