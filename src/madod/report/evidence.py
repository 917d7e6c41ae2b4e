"""The parts of a page that show, rather than tell, how known and unknown pictures are kept apart."""

from madod.report import plots, words
from madod.report.html import Markup, panels, paragraph, section, tag
from madod.report.inputs import Page
from madod.report.verdicts import SHOWN, extremes, tally
from madod.report.words import listed


def rocs(page: Page) -> Markup | None:
    """A ROC figure a detector."""
    unknown = page.cells[0].y < 0
    drawn: dict[str, Markup] = {}
    for name in page.detectors():
        cells = {words.algorithm(cell.algorithm).title: cell for cell in page.cells if name in cell.detectors()}
        scores = {title: cell.scores[name] for title, cell in cells.items()}
        thresholds = {title: cell.threshold[name] for title, cell in cells.items()}
        drawn[words.detector(name).title] = plots.roc(scores, unknown, thresholds, name=f"roc-{len(drawn)}")
    if not drawn:
        return None
    caption = (
        "Every point of a curve is one threshold; up and left is better, the dotted diagonal is a coin toss. "
        "The dot is the threshold actually used: it keeps 95 % of held-out source pictures, "
        "so its place shows what the new domain does to it."
    )
    return section("Telling the unknown from the known", panels(drawn, caption))


def histograms(page: Page) -> Markup | None:
    """The scores of the page's chosen detector on known and unknown pictures, one panel per algorithm."""
    word = words.detector(page.detector)
    xlabel = f"{word.title.lower()} score (further right: more unknown)"
    drawn = {
        words.algorithm(cell.algorithm).title: plots.energies(
            cell.scores[page.detector], cell.y < 0, cell.threshold[page.detector], xlabel, name=f"scores-{index}"
        )
        for index, cell in enumerate(page.cells)
        if page.detector in cell.detectors()
    }
    if not drawn:
        return None
    caption = (
        "Each kind as shares of its own number, since unknown pictures are few. Right of the dashed line a picture is "
        "called unknown; the less the two overlap, the better. Each algorithm has its own scale."
    )
    return section(f"{word.title} of known and unknown pictures", panels(drawn, caption))


def feature_maps(page: Page) -> Markup:
    """t-SNE of the features, one panel per algorithm."""
    drawn = {
        words.algorithm(cell.algorithm).title: plots.tsne(cell.features, cell.y, page.classes, name=f"tsne-{index}")
        for index, cell in enumerate(page.cells)
    }
    caption = (
        f"Up to {plots.MOST_POINTS} pictures of {page.test_domain}, laid out by t-SNE so that neighbours in the "
        "network's features are neighbours here; only nearness means something, not direction or size. "
        f"Colour and shape are the true class, stars are {listed(page.unknown)}."
    )
    return section("Where the network puts them", panels(drawn, caption))


def pictures(page: Page) -> Markup | None:
    """The most and the least unknown pictures of every algorithm."""
    parts: list[object] = []
    for cell in page.cells:
        names = cell.detectors()
        if names:
            name = page.detector if page.detector in names else names[0]
            most, least = extremes(page, cell, name)
            title, by = words.algorithm(cell.algorithm).title, words.detector(name).title
            parts += [tag("h3", f"{title}: most unknown by {by}"), most]
            parts += [tag("h3", f"{title}: least unknown by {by}"), least]
    if not parts:
        return None
    explained = (
        f"The {SHOWN} highest and the {SHOWN} lowest scores among all pictures of {page.test_domain}, as they fell. "
        "Under each: whether the verdict is right (✓) or wrong (✗, dashed frame), what was said, "
        "what it is (★ unknown class), and the score."
    )
    counted = tally(page, page.detector) if page.detector in page.detectors() else None
    return section("The pictures themselves", paragraph(explained), counted, *parts)
