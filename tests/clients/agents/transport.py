"""The transport of an SDK: HTTP/2 without negotiation and nothing else, if OVER_HTTP2 is set."""

import os

HTTP2_ONLY = {"http1": False, "http2": True} if "OVER_HTTP2" in os.environ else {}


def http_client(kind):
    """A client of this kind; nothing for the SDK's own."""
    return kind(**HTTP2_ONLY) if HTTP2_ONLY else None
