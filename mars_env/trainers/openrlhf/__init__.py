"""Training with OpenRLHF, unforked. Importing this starts nothing."""
