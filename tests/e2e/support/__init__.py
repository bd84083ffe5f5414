"""What the end-to-end tests, the demo and the benchmark share."""
