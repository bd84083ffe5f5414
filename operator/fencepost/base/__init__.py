"""Clock, settings, logs and metrics: open to all but the core."""
