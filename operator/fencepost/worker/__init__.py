"""The worker process: takes leases from its own object, runs their jobs, and answers each under its token."""
