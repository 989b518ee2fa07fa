"""Creates the web app of the pages listener."""

from __future__ import annotations

from mmo_trio.design.blueprint import create_design_blueprint
from mmo_trio.http.asgi.web_app import WebApp
from mmo_trio.pages.context import EXTENSION, PagesContext
from mmo_trio.pages.docs.pages import ApiDocs, create_docs_blueprint
from mmo_trio.pages.docs.trial import create_trial_blueprint
from mmo_trio.pages.payment.page import create_payment_page_blueprint, show_store_failure
from mmo_trio.pages.sandbox import activity, controls, guide, phone
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

# Nothing from elsewhere, no script or style within a page, and no other site around it: somebody
# who makes the gateway show a text of theirs can neither run it nor have the button pressed.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}


def create_pages_app(context: PagesContext, api_docs: ApiDocs) -> WebApp:
    """Create the app of payment pages and documentation, and of a sandbox's own pages."""
    app = WebApp(__name__, headers=HEADERS, static_cache_control="public, max-age=3600")
    app.extensions[EXTENSION] = context
    app.show_http_errors("fault.html")
    app.register_error_handler(StoreUnavailable, show_store_failure)
    app.register_error_handler(OutcomeUnknown, show_store_failure)
    app.register_blueprint(create_design_blueprint())
    app.register_blueprint(create_payment_page_blueprint(context))
    app.register_blueprint(create_docs_blueprint(api_docs))
    # In production these addresses don't exist: no clock moves, and no deposit is made up.
    if context.sandbox is not None:
        for blueprint in (
            controls.pages,
            activity.pages,
            guide.pages,
            phone.pages,
            create_trial_blueprint(api_docs),
        ):
            app.register_blueprint(blueprint)

    return app
