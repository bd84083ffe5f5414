"""The command fencepost, also as kubectl fencepost."""
