"""The one exception that a service may let out of its handler, and only where the protocol asks for a gRPC status."""


class RpcError(Exception):
    """A gRPC status that the server answers: `code` as in the gRPC specification (3 INVALID_ARGUMENT, 13 INTERNAL)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
