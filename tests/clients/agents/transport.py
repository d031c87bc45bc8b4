"""HTTP transport of an SDK: only HTTP/2 without negotiation, if OVER_HTTP2 is set."""

import os

HTTP2_ONLY = {"http1": False, "http2": True} if "OVER_HTTP2" in os.environ else {}


def http_client(client_class):
    """A client of this class, or none for the default of the SDK."""
    return client_class(**HTTP2_ONLY) if HTTP2_ONLY else None
