"""The merchant API as an OpenAPI 3.1 document, made from the tables that the code itself reads."""

from mmo_sansio.api.docs.openapi.document import openapi_document

__all__ = ["openapi_document"]
