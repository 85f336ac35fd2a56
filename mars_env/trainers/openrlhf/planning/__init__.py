"""What a run needs, before it starts: GPUs, memory, and the dry run. Needs no GPU."""
