"""The read side: lists, watches, and what they mean."""
