"""Qdrant, a server or the engine embedded in this process: REST bodies over the HTTP seam, answers validated."""
