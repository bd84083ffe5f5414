"""The decisions, pure: values in, values out. No I/O, clock, chance, identity or log."""
