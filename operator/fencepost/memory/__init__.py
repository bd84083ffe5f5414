"""The API server in memory: the laws of the real one, for tests, simulation and runs without a cluster."""
