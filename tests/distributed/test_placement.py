"""Placements as users give them."""

import pytest
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


@pytest.mark.parametrize("given", ["ray:0", "two", "ray:", "ray:nowhere.json", "ray:cluster.json"])
def test_what_is_no_placement_is_refused(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text('{"workers": {"count": 2, "cpu": 1}}')
    with pytest.raises(ConfigError):
        as_placement(given)


def test_without_ray_the_extra_is_named(monkeypatch):
    import importlib

    from mars_env.distributed import cluster
    from mars_env.errors import MissingExtra

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra):
        cluster.load_ray()


def test_an_address_is_one_of_workers_and_what_a_run_can_cost_is_told_without_them():
    words = ["evaluate", "arithmetic-solve", "--agents", "scripted:5", "--dry-run"]
    assert isinstance(CliRunner().invoke(app, [*words, "--ray-address", "h:1"]).exception, ConfigError)
    assert "at most 100 model calls" in CliRunner().invoke(app, [*words, "--workers", "ray:2"]).output
