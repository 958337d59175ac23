"""Qdrant: one client for the server and for the engine embedded in this process.

`client` speaks Qdrant's REST bodies over the HTTP seam and `answers` validates what comes back. `engine` is a transport
behind that seam, which answers the same requests from a directory; the other modules read the parts of those requests.
"""
