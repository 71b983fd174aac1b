"""The HTTP API: routes by resource, one set of wire types, one error → status table."""
