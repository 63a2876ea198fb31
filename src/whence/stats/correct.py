"""p-values corrected for multiple comparisons."""

import numpy as np
import pandas

from whence.errors import BadInput

# our names -> statsmodels'
METHODS = {"holm": "holm", "fdr": "fdr_bh", "bonferroni": "bonferroni"}


def corrected(table: pandas.DataFrame, method: str | None = "holm", column: str = "p") -> pandas.DataFrame:
    """The table with COLUMN_corrected for all its rows together; rows without a p-value do not count.

    holm        keeps the chance of any false finding below the level
    fdr         keeps the expected share of false ones among the findings below it (Benjamini & Hochberg 1995)

    Args:
        table: rows to compare, such as `run.tokens`
        method: holm, fdr, or None, which adds nothing
        column: the column of p-values

    Returns:
        The table with one more column.

    Examples:
        >>> import pandas
        >>> whence.stats.corrected(pandas.DataFrame({"p": [0.01, 0.04]})).p_corrected.tolist()
        [0.02, 0.04]
    """
    if method is None:
        return table
    if method not in METHODS:
        raise BadInput(f"A correction is one of {', '.join(METHODS)} or None, and {method!r} was given.")
    from statsmodels.stats.multitest import multipletests

    values = np.full(len(table), np.nan)
    present = table[column].notna().to_numpy()
    if present.any():
        values[present] = multipletests(table.loc[present, column], method=METHODS[method])[1]
    return table.assign(**{f"{column}_corrected": values})
