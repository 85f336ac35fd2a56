"""`mars-env doctor`: one command for the extras that are missing."""

from mars_env.cli import doctor


def test_what_is_missing_is_one_command_that_can_be_copied(monkeypatch, capsys):
    missing = {"wandb", "peft", "ray", "vllm"}
    monkeypatch.setattr(doctor, "installed", lambda package: None if package in missing else "1.0")
    doctor.doctor()
    said = capsys.readouterr().out.splitlines()
    assert "to add what is missing: pip install 'mars-env[lora,wandb,ray]'" in said
    assert "in separate environments (docs/dependencies.md): vllm" in said
    assert any("torch" in line for line in said)
