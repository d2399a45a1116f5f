"""The gateway document: read, checked, and compiled to Envoy configuration and to the policy snapshot."""
