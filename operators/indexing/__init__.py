"""Indexing: document events become points in Qdrant, and watermarks that say so."""
