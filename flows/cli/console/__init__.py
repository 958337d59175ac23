"""The console: a workbench in the browser on which ranking is searched, compared, explained, changed and judged."""
