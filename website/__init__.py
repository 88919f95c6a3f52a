"""The documentation's site: pages of the repository and generated reference pages, built with mkdocs-material.

Guarantees: every link of a page leads to a page of the site; a broken one fails the build. The built pages load nothing
from other hosts. No generated page is in the repository.
"""
