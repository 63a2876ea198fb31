"""Which papers to cite for a result."""

import re
from collections.abc import Mapping

from whence.errors import BadInput
from whence.measures.registry import measures

PAPERS = {
    "vaswani2017": """@inproceedings{vaswani2017attention,
  title = {Attention is All you Need},
  author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N.
            and Kaiser, {\\L}ukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems 30},
  year = {2017}
}""",
    "brunner2020": """@inproceedings{brunner2020identifiability,
  title = {On Identifiability in Transformers},
  author = {Brunner, Gino and Liu, Yang and Pascual, Dami{\\'a}n and Richter, Oliver and Ciaramita, Massimiliano
            and Wattenhofer, Roger},
  booktitle = {International Conference on Learning Representations},
  year = {2020}
}""",
    "kobayashi2020": """@inproceedings{kobayashi2020attention,
  title = {Attention is Not Only a Weight: Analyzing Transformers with Vector Norms},
  author = {Kobayashi, Goro and Kuribayashi, Tatsuki and Yokoi, Sho and Inui, Kentaro},
  booktitle = {Proceedings of the 2020 Conference on Empirical Methods in Natural Language Processing},
  year = {2020}
}""",
    "kobayashi2021": """@inproceedings{kobayashi2021incorporating,
  title = {Incorporating Residual and Normalization Layers into Analysis of Masked Language Models},
  author = {Kobayashi, Goro and Kuribayashi, Tatsuki and Yokoi, Sho and Inui, Kentaro},
  booktitle = {Proceedings of the 2021 Conference on Empirical Methods in Natural Language Processing},
  year = {2021}
}""",
    "modarressi2023": """@inproceedings{modarressi2023decompx,
  title = {{DecompX}: Explaining Transformers Decisions by Propagating Token Decomposition},
  author = {Modarressi, Ali and Fayyaz, Mohsen and Aghazadeh, Ehsan and Yaghoobzadeh, Yadollah and
            Pilehvar, Mohammad Taher},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year = {2023}
}""",
    "kobayashi2024": """@inproceedings{kobayashi2024analyzing,
  title = {Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention Maps},
  author = {Kobayashi, Goro and Kuribayashi, Tatsuki and Yokoi, Sho and Inui, Kentaro},
  booktitle = {International Conference on Learning Representations},
  year = {2024}
}""",
    "ferrando2022": """@inproceedings{ferrando2022measuring,
  title = {Measuring the Mixing of Contextual Information in the Transformer},
  author = {Ferrando, Javier and G{\\'a}llego, Gerard I. and Costa-juss{\\`a}, Marta R.},
  booktitle = {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing},
  year = {2022}
}""",
    "mohebbi2023": """@inproceedings{mohebbi2023quantifying,
  title = {Quantifying Context Mixing in Transformers},
  author = {Mohebbi, Hosein and Zuidema, Willem and Chrupa{\\l}a, Grzegorz and Alishahi, Afra},
  booktitle = {Proceedings of the 17th Conference of the European Chapter of the Association for Computational
               Linguistics},
  year = {2023}
}""",
    "abnar2020": """@inproceedings{abnar2020quantifying,
  title = {Quantifying Attention Flow in Transformers},
  author = {Abnar, Samira and Zuidema, Willem},
  booktitle = {Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics},
  year = {2020}
}""",
    "westera2019": """@inproceedings{westera2019correlates,
  title = {Some linguistic correlates of gradients and attention weights in BERT},
  author = {Westera, Matthijs},
  booktitle = {BlackboxNLP (poster)},
  year = {2019}
}""",
    "petroni2019": """@inproceedings{petroni2019language,
  title = {Language Models as Knowledge Bases?},
  author = {Petroni, Fabio and Rockt{\\"a}schel, Tim and Riedel, Sebastian and Lewis, Patrick and Bakhtin, Anton
            and Wu, Yuxiang and Miller, Alexander},
  booktitle = {Proceedings of the 2019 Conference on Empirical Methods in Natural Language Processing},
  year = {2019}
}""",
    "podkorytov2021": """@inproceedings{podkorytov2021how,
  title = {How Can the [MASK] Know? The Sources and Limitations of Knowledge in BERT},
  author = {Podkorytov, Maksim and Bi{\\'s}, Daniel and Liu, Xiuwen},
  booktitle = {International Joint Conference on Neural Networks},
  year = {2021}
}""",
    "gurnee2026": """@article{gurnee2026verbalizable,
  title = {Verbalizable Representations Form a Global Workspace in Language Models},
  author = {Gurnee, Wes and Sofroniew, Nicholas and Lindsey, Jack and others},
  journal = {Transformer Circuits Thread},
  url = {https://transformer-circuits.pub/2026/workspace/index.html},
  year = {2026}
}""",
    "belrose2023": """@misc{belrose2023eliciting,
  title = {Eliciting Latent Predictions from Transformers with the Tuned Lens},
  author = {Belrose, Nora and Furman, Zach and Smith, Logan and Halawi, Danny and Ostrovsky, Igor and McKinney, Lev
            and Biderman, Stella and Steinhardt, Jacob},
  eprint = {2303.08112},
  archivePrefix = {arXiv},
  year = {2023}
}""",
    "whence": """@software{whence,
  title = {whence: where the information in every hidden token of a transformer comes from},
  year = {2026}
}""",
}

# verbs that are not measures
VERBS = {
    "identify": ("brunner2020",),
    "lens": ("gurnee2026", "belrose2023"),
    "lm_head": ("podkorytov2021",),
    "perturb": ("podkorytov2021",),
    "cloze": ("podkorytov2021", "petroni2019"),
}


def cite(dataset: object) -> str:
    """BibTeX of whence and of every paper behind the measures in a Dataset or a run.

    Args:
        dataset: what `whence.measure`, `whence.why` and their like give, or a run from `whence.open_run`

    Returns:
        The entries as text. A measure of another package may bring its own.

    Examples:
        >>> "kobayashi2021" in whence.cite(whence.measure(whence.load(), "Paris is a city.", "mixing"))
        True
    """
    return "\n\n".join(PAPERS.get(key, key) for key in _keys(dataset))


def credit(dataset: object) -> str:
    """One line for below a picture: whence, the model, and the papers behind the measures, by authors and year."""
    attrs: Mapping[str, object] = getattr(dataset, "attrs", {})
    keys = _keys(dataset)[1:] if attrs.get("measures") is not None else []
    papers = "; ".join(said for key in keys if (said := _short(PAPERS.get(key, ""))))
    made = f"Made with whence {attrs.get('whence_version', '')}".strip()
    return " · ".join(filter(None, [made, str(attrs.get("model", "")), papers and f"after {papers}"]))


def _keys(dataset: object) -> list[str]:
    measured = getattr(dataset, "attrs", {}).get("measures")
    if measured is None:
        raise BadInput(
            f"What was measured is in the attributes of a Dataset, and this {type(dataset).__name__} has none."
        )
    papers = VERBS | {name: row.papers for name, row in measures().items()}
    names = [name for name in str(measured).split(",") if name in papers]
    return list(dict.fromkeys(["whence", *(paper for name in names for paper in papers[name])]))


def _short(entry: str) -> str:
    """Brunner et al. 2020"""
    authors, year = re.search(r"author = \{(.*?)\},\n", entry, re.S), re.search(r"year = \{(\d+)\}", entry)
    if not authors or not year:
        return ""
    names = [name.split(",")[0].strip() for name in re.split(r"\sand\s", " ".join(authors[1].split()))]
    who = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
    return f"{who} {year[1]}"
