"""Fencepost: a job scheduler with DAGs for Kubernetes in which every lease is fenced."""
