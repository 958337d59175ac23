"""Access: who may ask, and which documents an answer may show. Pure."""
