"""Pure models of breakers, rate limits, fair queues, ownership and clock trust."""
