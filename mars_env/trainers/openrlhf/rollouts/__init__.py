"""What is trained on: problems, engines, rollouts, and their samples as rows. Does not import OpenRLHF."""
