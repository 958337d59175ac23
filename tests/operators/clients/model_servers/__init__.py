"""Tests of what comes of the manners of embedders' and rerankers' servers."""
