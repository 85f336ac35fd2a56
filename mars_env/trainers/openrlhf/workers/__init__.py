"""The processes of a run: OpenRLHF's classes, extended. Every module here imports OpenRLHF."""
