"""What a run needs, before it starts: GPUs, memory, room in the context, and the dry run. Needs no GPU."""
