"""The durable store: the decision log, operations, exposure, credentials, and the service's own keys."""
