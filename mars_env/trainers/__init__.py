"""Advantages, losses, the local trainer, the miniature. Import it as `mars_env.trainers`."""

if __name__ == "trainers":
    raise ImportError("import it as mars_env.trainers: under the bare name everything would exist twice")
