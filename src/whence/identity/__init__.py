"""Can a hidden vector still be traced to its token: token identifiability (Brunner et al. 2020, section 4 and B)."""
