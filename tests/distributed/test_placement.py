"""Placements as users give them."""

from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.distributed import Place, Placement, as_placement
from mars_env.errors import ConfigError


def test_a_file_holds_a_placement(tmp_path):
    path = tmp_path / "cluster.json"
    wanted = Placement(workers=Place(count=4, cpus=2, labels={"zone": "a"}), graders=Place(count=1, gpus=8))
    path.write_text(wanted.model_dump_json())
    assert as_placement(f"ray:{path}") == wanted
    assert as_placement(f"ray:{path}", "10.0.0.1:6379").address == "10.0.0.1:6379"


def test_an_address_is_one_of_workers_and_what_a_run_can_cost_is_told_without_them():
    words = ["evaluate", "arithmetic-solve", "--agents", "scripted:5", "--dry-run"]
    assert isinstance(CliRunner().invoke(app, [*words, "--ray-address", "h:1"]).exception, ConfigError)
    assert "at most 100 model calls" in CliRunner().invoke(app, [*words, "--workers", "ray:2"]).output
