"""The words of texts, of queries and documents alike: analysis, terms, expressions, trigrams, passages. Pure."""
