"""Sphinx: the pages are written for a code host, and the site shows them as they are. `make docs` builds it."""

project = "rankstream"
author = "rankstream"
copyright = "rankstream, Apache-2.0"  # noqa: A001  the name is Sphinx's

extensions = ["myst_parser", "sphinx_external_toc"]
# The root of the sources is that of the repository, so that links to what is beside docs/ work.
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "bench", "flows", "operators", "requirements", "schemas", "tests"]
root_doc = "docs/index"
source_suffix = {".md": "markdown"}
external_toc_path = "docs/site/contents.yaml"
nitpicky = True

# As a code host has them: an anchor for each heading, and two hyphens are two hyphens.
myst_heading_anchors = 6
smartquotes = False

html_theme = "furo"
html_title = "rankstream"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["width.css"]
