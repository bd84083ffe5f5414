"""The worker process: leases in, results out."""
