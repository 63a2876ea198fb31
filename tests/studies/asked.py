"""What one model answers to a study, without a report."""

from whence.models.several import several
from whence.studies import find
from whence.studies.frame.answers import answered
from whence.studies.frame.report import reported


def asked(name, context):
    """Every item of every section, resolved."""
    study, (model,) = find(name), several(context.model)
    return [item for section in reported(study, [(model, answered(study, context))]) for item in section.items]
