"""A gateway's merchant API without I/O: the real requests, rules and responses of the core, in
virtual time."""

from __future__ import annotations

from typing import Any, assert_never

from attrs import Factory, define

from mmo_sansio.api.extensions import OperationState, methods_response
from mmo_sansio.api.incoming import requests
from mmo_sansio.api.incoming.payee_question import PayeeQuestion
from mmo_sansio.api.incoming.query_string import RecordsRequest, ReversalsRequest
from mmo_sansio.api.incoming.requests import (
    ApiRoute,
    ApiSettings,
    CreationHead,
    MethodsRequest,
    find_route,
)
from mmo_sansio.api.outgoing import (
    creation_response,
    look_up_response,
    page_response,
    problem_response,
    transaction_object,
)
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.http.request_head import to_origin_form
from mmo_sansio.messages.queries import (
    ListRecords,
    LookUp,
    LookUpByMerchantReference,
    Position,
    Records,
)
from mmo_sansio.testing import World, a_brand, numbered_reference
from mmo_sansio.values.model import Brand, Terms, Transaction
from mmo_sansio.values.money import decimals_of
from mmo_sansio.values.problems import Problem, ProblemError

BASE_URL = "https://gateway.example"
KEY = "key-of-acme-0123456789abcdef"
SETTINGS = ApiSettings(
    "https://errors.example", "https://pay.example", (b"cursor key 0123456789abcdef",)
)


@define
class SimulatedApi:
    """Answers merchants' requests from a small world, whose time is the answer's time."""

    world: World = Factory(World)
    brand: Brand = Factory(a_brand)
    terms: Terms = Terms()
    settings: ApiSettings = SETTINGS
    unlisted: set[str] = Factory(set)
    """The payments that records do not show yet, as they are stored late."""
    reversed_page: Records = Records((), None, None, has_previous=False, has_next=False)
    """What every request for reversals is answered."""
    _created: int = 0

    @property
    def payments(self) -> list[Transaction]:
        """All payments, in the order of their creation."""
        found = self.world.gateway.ledger.transactions.values()
        return sorted(found, key=lambda each: (each.order.created_at, each.reference))

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request with an absolute target."""
        head = to_origin_form(request)
        head = HttpRequest(head.method, head.target, head.headers, request.body)
        try:
            outcome = self._answer(head)
        except ProblemError as error:
            outcome = error.problem
        if isinstance(outcome, Problem):
            return problem_response(outcome, self.settings.error_docs_url, "01REQUEST")
        return outcome

    def _answer(self, head: HttpRequest) -> HttpResponse | Problem:
        route: Any = find_route(head)
        assert isinstance(route, ApiRoute)
        brand = self.brand if requests.read_api_key(head) == KEY.encode() else None
        match requests.check_head(head, route, brand, self.settings):
            case CreationHead() as creation:
                return self._create(creation, head.body)
            case LookUp(_, gateway_reference):
                return self._found(
                    [each for each in self.payments if each.reference == gateway_reference]
                )
            case LookUpByMerchantReference(_, merchant_reference):
                return self._found(
                    [
                        each
                        for each in self.payments
                        if each.order.merchant_reference == merchant_reference
                    ]
                )
            case RecordsRequest() as request:
                return page_response(self._records(request.query), request, self.settings)
            case MethodsRequest(asking):
                return methods_response(
                    asking,
                    find_state=lambda method, operation: OperationState.OPEN,
                    find_decimals=lambda method, currency: decimals_of(currency),
                )
            case ReversalsRequest() as reversals:
                return page_response(self.reversed_page, reversals, self.settings)
            case PayeeQuestion():
                raise AssertionError("this gateway tells no payees")
            case other:
                assert_never(other)

    def _create(self, creation: CreationHead, body: bytes) -> HttpResponse | Problem:
        self._created += 1
        input_ = requests.parse_creation(
            creation,
            body,
            self.settings,
            gateway_reference=numbered_reference(self._created),
            page_token=f"page-{self._created}",
            terms=self.terms,
        )
        return creation_response(self.world.receive(input_), self.settings)

    def _found(self, found: list[Transaction]) -> HttpResponse | Problem:
        return look_up_response(transaction_object(found[-1]) if found else None)

    def _records(self, query: ListRecords) -> Records:
        rows = [
            (Position(each.order.created_at, each.reference), each)
            for each in self.payments
            if query.begin <= each.order.created_at < query.end
            and query.type in (None, each.order.type)
            and query.status in (None, each.status)
            and query.method in (None, each.order.method)
            and each.reference not in self.unlisted
        ]
        after = [(at, each) for at, each in rows if query.after is None or at > query.after]
        page = after[: query.page_size]
        return Records(
            tuple(transaction_object(each) for _, each in page),
            page[0][0] if page else None,
            page[-1][0] if page else None,
            has_previous=bool(page) and rows[0][0] < page[0][0],
            has_next=len(after) > len(page),
        )
