"""The demo's gRPC backends, served over mTLS from the descriptor set alone: no generated code.

Every call must carry a caller context that verifies (DESIGN section 4): without one it ends as PERMISSION_DENIED,
which the gateway maps to 403. Each call writes one JSON line, so that a test can count what reached a backend. Some
identifiers misbehave on purpose; MISBEHAVIOUR lists them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

MISBEHAVIOUR: Mapping[str, grpc.StatusCode | float | None] = {
    "hang": None,
    "slow": 1.0,
    "missing": grpc.StatusCode.NOT_FOUND,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "broken": grpc.StatusCode.INTERNAL,
    "busy": grpc.StatusCode.UNAVAILABLE,
    "invalid": grpc.StatusCode.INVALID_ARGUMENT,
    "exhausted": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""What an account, payment or end-to-end id of that name does: a status, a wait in seconds, or (None) never answer.

What follows a "~" in an identifier only makes it unique: "hang~7" hangs as "hang" does.
"""

Claims = Mapping[str, Any]
Metadata = Mapping[str, str]
Verify = Callable[[Metadata], Claims | None]
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Answer = Callable[["Catalogue", Any, Metadata], Message]


class Catalogue:
    """The message classes and service descriptors of a descriptor set file."""

    def __init__(self, path: Path) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file:
            self._pool.Add(file)

    def methods(self, service: str) -> Iterable[MethodDescriptor]:
        """List the methods of a service by its full name."""
        methods: Iterable[MethodDescriptor] = self._pool.FindServiceByName(service).methods
        return methods

    def make(self, name: str, /, **fields: Any) -> Message:
        """Make a message by its full name."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))(**fields)


def _list_accounts(catalogue: Catalogue, request: Any, _metadata: Metadata) -> Message:
    accounts = [_account(catalogue, name) for name in ("current", "savings")]
    return catalogue.make(f"{LEDGER}.ListAccountsResponse", accounts=accounts, request=request)


def _get_account(catalogue: Catalogue, request: Any, metadata: Metadata) -> Message:
    seen = dict(metadata) if kind_of(request.account_id) == "echo" else {}
    return _account(catalogue, request.account_id, metadata=seen)


def _list_transactions(catalogue: Catalogue, request: Any, _metadata: Metadata) -> Message:
    booked = [_transaction(catalogue, request.account_id, number) for number in range(3)]
    return catalogue.make(f"{LEDGER}.ListTransactionsResponse", transactions=booked, request=request)


def _list_products(catalogue: Catalogue, _request: Any, _metadata: Metadata) -> Message:
    product = catalogue.make(f"{LEDGER}.Product", product_id="p-1", name="Current account")
    return catalogue.make(f"{LEDGER}.ListProductsResponse", products=[product])


def _initiate_payment(catalogue: Catalogue, request: Any, _metadata: Metadata) -> Message:
    identifier = f"pay-{request.end_to_end_id or 'none'}"
    return catalogue.make(f"{PAYMENTS}.Payment", payment_id=identifier, status="RCVD", request=request)


def _get_payment(catalogue: Catalogue, request: Any, _metadata: Metadata) -> Message:
    return catalogue.make(f"{PAYMENTS}.Payment", payment_id=request.payment_id, status="ACSC")


def _account(catalogue: Catalogue, name: str, **fields: Any) -> Message:
    balance = catalogue.make(f"{LEDGER}.Amount", currency="EUR", amount="1250.00")
    return catalogue.make(f"{LEDGER}.Account", account_id=name, name=name.title(), balance=balance, **fields)


def _transaction(catalogue: Catalogue, account: str, number: int) -> Message:
    amount = catalogue.make(f"{LEDGER}.Amount", currency="EUR", amount=f"{number + 1}.00")
    return catalogue.make(f"{LEDGER}.Transaction", transaction_id=f"{account}-{number}", amount=amount)


LEDGER = "openbanking.ledger.v1"
PAYMENTS = "openbanking.payments.v1"

ANSWERS: Mapping[str, Answer] = {
    f"{LEDGER}.AccountLedger.ListAccounts": _list_accounts,
    f"{LEDGER}.AccountLedger.GetAccount": _get_account,
    f"{LEDGER}.AccountLedger.ListTransactions": _list_transactions,
    f"{LEDGER}.OpenData.ListProducts": _list_products,
    f"{PAYMENTS}.PaymentInitiation.InitiatePayment": _initiate_payment,
    f"{PAYMENTS}.PaymentInitiation.GetPayment": _get_payment,
}

BACKENDS: Mapping[str, tuple[str, ...]] = {
    "ledger": (f"{LEDGER}.AccountLedger", f"{LEDGER}.OpenData"),
    "payments": (f"{PAYMENTS}.PaymentInitiation",),
}
"""Services by backend."""

OPTIONS = (
    ("grpc.so_reuseport", 0),
    # what the gateway lets through must not fail behind it: gRPC's own limits are 16 KiB and 4 MiB
    ("grpc.max_metadata_size", 128 << 10),
    ("grpc.absolute_max_metadata_size", 128 << 10),
    ("grpc.max_receive_message_length", 12 << 20),
)

AUDIENCES = {"ledger": "account-ledger", "payments": "payment-initiation"}
"""The `aud` of the caller context that each backend insists on."""


@dataclass(slots=True)
class Backend:
    """One backend: checks the context, writes the line, behaves or misbehaves, answers."""

    name: str
    catalogue: Catalogue
    verify: Verify
    write: Callable[[Mapping[str, Any]], None]

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """Make the gRPC handlers of all services of this backend."""
        return [
            grpc.method_handlers_generic_handler(
                service, {method.name: self._handler(method) for method in self.catalogue.methods(service)}
            )
            for service in BACKENDS[self.name]
        ]

    def _handler(self, method: MethodDescriptor) -> Handler:
        parse: Callable[[bytes], Any] = message_factory.GetMessageClass(method.input_type).FromString
        write: Callable[[Any], bytes] = message_factory.GetMessageClass(method.output_type).SerializeToString
        if method.server_streaming:

            async def stream(request: Any, context: Context) -> AsyncIterator[Message]:
                await self._admit(method, request, context)
                for number in range(request.count or 3):
                    yield _transaction(self.catalogue, request.account_id, number)

            return grpc.unary_stream_rpc_method_handler(stream, parse, write)

        async def unary(request: Any, context: Context) -> Message:
            metadata = await self._admit(method, request, context)
            return ANSWERS[method.full_name](self.catalogue, request, metadata)

        return grpc.unary_unary_rpc_method_handler(unary, parse, write)

    async def _admit(self, method: MethodDescriptor, request: Any, context: Context) -> Metadata:
        metadata = read_metadata(context.invocation_metadata() or ())
        claims = self.verify(metadata)
        identifier = identify(request)
        self.write(self._line("call", method, identifier, metadata) | _caller(claims) | {"metadata": sorted(metadata)})
        if claims is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no valid caller context")
        try:
            await self._misbehave(identifier, context)
        except asyncio.CancelledError:
            self.write(self._line("cancelled", method, identifier, metadata))
            raise
        return metadata

    def _line(self, event: str, method: MethodDescriptor, identifier: str, metadata: Metadata) -> dict[str, Any]:
        return {
            "event": event,
            "time": round(time.time(), 4),
            "backend": self.name,
            "method": method.name,
            "id": identifier,
            "request_id": metadata.get("x-request-id", ""),
        }

    async def _misbehave(self, identifier: str, context: Context) -> None:
        how = MISBEHAVIOUR.get(kind_of(identifier), 0.0)
        if how is None:
            await asyncio.get_running_loop().create_future()
        elif isinstance(how, grpc.StatusCode):
            await context.abort(how, f"the demo answers {how.name} for {identifier!r}")
        elif how:
            await asyncio.sleep(how)


def read_metadata(pairs: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Read invocation metadata as text; repeated keys are joined by a comma, as HTTP does."""
    seen: dict[str, str] = {}
    for name, value in pairs:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        seen[name] = f"{seen[name]},{text}" if name in seen else text
    return seen


def identify(request: Any) -> str:
    """Name the thing a request is about: account, payment or end-to-end id, "" where it has none."""
    for name in ("account_id", "payment_id", "end_to_end_id"):
        if name in request.DESCRIPTOR.fields_by_name:
            return str(getattr(request, name))
    return ""


def kind_of(identifier: str) -> str:
    """Give the part of an identifier that says how the backend behaves."""
    return identifier.partition("~")[0]


def _caller(claims: Claims | None) -> dict[str, Any]:
    if claims is None:
        return {"context": "refused"}
    known = ("client_id", "tier", "sub")
    return {"context": "verified"} | {name: claims[name] for name in known if name in claims}


async def start_backend(backend: Backend, address: str, pki: Path) -> grpc.aio.Server:
    """Start serving over mTLS at `address`: only callers with a certificate of the mesh CA get as far as a handshake.

    Raises RuntimeError where the port is taken.
    """
    credentials = grpc.ssl_server_credentials(
        [((pki / f"{backend.name}.key").read_bytes(), (pki / f"{backend.name}.pem").read_bytes())],
        root_certificates=(pki / "mesh-ca.pem").read_bytes(),
        require_client_auth=True,
    )
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers(backend.handlers())
    server.add_secure_port(address, credentials)
    await server.start()
    return server
