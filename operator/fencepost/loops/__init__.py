"""The async shells of the operator."""
