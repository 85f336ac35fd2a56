"""Training with OpenRLHF, unforked: `python -m mars_env.trainers.openrlhf`. Importing this starts nothing."""
