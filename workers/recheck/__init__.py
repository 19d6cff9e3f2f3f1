"""Looking again at a run: `rescoring` of its texts, the `stability` of its answers, the `tokens` of its prompts."""
