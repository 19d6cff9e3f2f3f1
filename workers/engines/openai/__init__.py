"""The engine on OpenAI-compatible servers, for the model under test and for judges."""
