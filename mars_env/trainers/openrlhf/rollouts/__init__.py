"""OpenRLHF's engines as a model, and samples as its rows. Does not import OpenRLHF."""
