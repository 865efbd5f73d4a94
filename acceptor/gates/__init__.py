"""Gates on the route of a publish: queues with limits, shared limits, rates, stops; the channels that wait there."""
