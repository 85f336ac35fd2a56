"""Published methods, each built on the public extension points and nothing else."""
