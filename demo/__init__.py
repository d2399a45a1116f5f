"""The open-banking gateway as a demo that starts with one command: PKI, identity provider, backends, sidecar, Envoy.

`settings` says where everything lives, `pki`, `idp` and `backend` are the world around the gateway, `supervise` and
`launch` start and end it all, `client` speaks HTTP as a partner would, `rows` and `tour` show what the gateway does.
"""
