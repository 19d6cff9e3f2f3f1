"""Questions that somebody waits for, over HTTP."""
