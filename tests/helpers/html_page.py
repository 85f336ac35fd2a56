"""The elements of a page."""

from html.parser import HTMLParser

VOID = {"meta", "input", "img", "link", "br"}


class Page(HTMLParser):
    """Collects the page's elements, their attributes and its preformatted texts; all must nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "pre":
            self.texts.append(data)
