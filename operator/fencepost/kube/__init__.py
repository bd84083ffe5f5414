"""The Kubernetes API as this project needs it: one protocol, and the client that speaks it over HTTP."""
