"""HTML from the templates of this folder. Every value is escaped, unless the template itself marks it as safe."""

from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from whence.page.bundle import HERE, digest

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.filters["digest"] = digest


def rendered(template: str, **values: Any) -> str:
    """The HTML that a template gives with these values."""
    return _ENVIRONMENT.get_template(template).render(values)
