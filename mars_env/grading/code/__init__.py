"""Programs: judged by running them in sandboxes."""
