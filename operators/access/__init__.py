"""Access: which queries a source may send, and which documents an answer may show. Pure."""
