"""A question file looked through before anything is asked of it."""
