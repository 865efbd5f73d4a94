"""Dead-lettering: messages that expired, were dropped or rejected are published again."""
