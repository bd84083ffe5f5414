"""The write side: the executor is the only writer."""
