"""The composition root: the only place that builds clocks, clients and loops.

An operator replica is two clients on one API server (the Leases have their own, so that a renewal never waits behind
bulk work), leadership over shards, the scheduler that plans for them, kopf for the pools, and an HTTP server for probes
and metrics. A worker is one client and one Worker.
"""
