"""For OpenRLHF's own command line: the file for ``--train.agent_func_path``, its prompts and its rows."""
